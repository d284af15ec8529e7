//! Configuration files: TOML, with keys set from the command line on top. Unknown keys are errors.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::Error;

/// Reads `text` (of the file `name`), replaces the keys of `overrides` (`key.of.section=value`), and checks every key.
pub fn read<T: DeserializeOwned>(name: &str, text: &str, overrides: &[String]) -> Result<T, Error> {
    serde_path_to_error::deserialize(table(name, text, overrides)?).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string().replace('\n', " ");
        let sources: Vec<&String> = overrides.iter().filter(|s| concerns(s, &path)).collect();
        let source = sources.last().map_or_else(|| name.to_string(), |s| format!("--set {s}"));
        fail(&source, format!("`{path}`: {}", message.trim()))
    })
}

/// The keys of `text` (of the file `name`) with those of `overrides` in their place.
pub(crate) fn table(name: &str, text: &str, overrides: &[String]) -> Result<Table, Error> {
    let mut table: Table = text.parse().map_err(|e: toml::de::Error| fail(name, e.to_string()))?;
    for setting in overrides {
        set(&mut table, setting).map_err(|message| fail(&format!("--set {setting}"), message))?;
    }
    Ok(table)
}

fn fail(source_name: &str, message: String) -> Error {
    Error::Configuration { source_name: source_name.into(), message }
}

/// Whether a setting is about the key `path` or something inside it.
fn concerns(setting: &str, path: &str) -> bool {
    let rest = setting.split_once('=').and_then(|(key, _)| key.trim().strip_prefix(path));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Sets `a.b.c=value`; what is not a TOML value is taken as a string.
fn set(table: &mut Table, setting: &str) -> Result<(), String> {
    let (key, value) = setting.split_once('=').ok_or("expected key=value, as in train.epochs=200")?;
    let value = value.trim();
    let value = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut t| t.remove("value"))
        .unwrap_or_else(|| Value::String(value.into()));
    let mut keys: Vec<&str> = key.trim().split('.').collect();
    let last = keys.pop().filter(|k| !k.is_empty()).ok_or("the key is empty")?;
    let mut section = table;
    for key in keys {
        section = section
            .entry(key)
            .or_insert_with(|| Value::Table(Table::new()))
            .as_table_mut()
            .ok_or_else(|| format!("`{key}` is a value, not a section"))?;
    }
    section.insert(last.into(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        part: Part,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Part {
        size: usize,
    }

    const TEXT: &str = "name = 'a'\n[part]\nsize = 3\n";

    fn message(text: &str, overrides: &[&str]) -> String {
        let overrides: Vec<String> = overrides.iter().map(|s| s.to_string()).collect();
        read::<Sample>("file.toml", text, &overrides).unwrap_err().to_string()
    }

    #[test]
    fn settings_replace_keys_and_strings_need_no_quotes() {
        let found: Sample = read("file.toml", TEXT, &["part.size = 7".into(), "name=two words".into()]).unwrap();
        assert_eq!(found, Sample { name: "two words".into(), part: Part { size: 7 } });
    }

    #[test]
    fn errors_name_the_file_and_the_key() {
        let unknown = message("name = 'a'\n[part]\nsize = 3\nsise = 4\n", &[]);
        assert!(unknown.starts_with("file.toml: `part.sise`: unknown field `sise`, expected `size`"), "{unknown}");
        let missing = message("name = 'a'\n[part]\n", &[]);
        assert!(missing.starts_with("file.toml: `part`: missing field `size`"), "{missing}");
        let syntax = message("name = \n", &[]);
        assert!(syntax.contains("file.toml") && syntax.contains("line 1"), "{syntax}");
    }

    #[test]
    fn errors_name_the_setting_that_caused_them() {
        let wrong = message(TEXT, &["part.size=many"]);
        assert!(wrong.starts_with("--set part.size=many: `part.size`: invalid type: string \"many\""), "{wrong}");
        let unknown = message(TEXT, &["part.siz=4", "part.size=4"]);
        assert!(unknown.starts_with("--set part.siz=4: `part.siz`: unknown field"), "{unknown}");
        assert!(message(TEXT, &["part.size"]).contains("expected key=value"));
        assert!(message(TEXT, &["name.x=1"]).contains("`name` is a value, not a section"));
    }
}
