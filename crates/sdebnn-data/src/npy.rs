//! Sequences in NumPy's format: a header that is a Python dictionary, then the numbers.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Error, Flaw, Sequence};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Larger files are not read: 134 million numbers are no motion.
const MOST_BYTES: u64 = 1 << 30;

/// Reads a whole file: an array `[len, features]` of finite `f32` or `f64`, in either order of bytes and of axes.
pub fn parse(file: &[u8]) -> Result<Sequence, Flaw> {
    let (header, start) = split_header(file)?;
    let Header { numbers, fortran_order, shape: [len, features], shape_at } = Header::parse(header, start)?;
    let data_at = start + header.len();
    let data = &file[data_at..];

    let too_many =
        || Flaw::new(shape_at as u64, format!("the shape ({len}, {features})"), "an array that fits in memory");
    let size = len.checked_mul(features).and_then(|n| n.checked_mul(numbers.size())).ok_or_else(too_many)?;
    if data.len() != size {
        let (at, found) = match data.len() < size {
            true => (file.len(), "the end of the file"),
            false => (data_at + size, "more bytes"),
        };
        let expected =
            format!("{size} bytes after the header of {data_at}: {len} × {features} numbers of {}", numbers.size());
        return Err(Flaw::new(at as u64, found, expected));
    }

    let mut values = numbers.decode(data);
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        let offset = (data_at + at * numbers.size()) as u64;
        return Err(Flaw::new(offset, values[at].to_string(), "a finite number"));
    }
    if fortran_order {
        values = (0..len * features).map(|i| values[i % features * len + i / features]).collect();
    }
    Ok(Sequence::new(features, values))
}

/// Reads all files `*.npy` of a folder, in the order of their names; all must have as many features as the first.
pub fn load_folder(folder: &Path) -> Result<Vec<Sequence>, Error> {
    let mut sequences: Vec<Sequence> = Vec::new();
    for path in files(folder)? {
        let sequence = load(&path)?;
        if let Some(first) = sequences.first()
            && first.features() != sequence.features()
        {
            let found = format!("{} features", sequence.features());
            let flaw = Flaw::new(0, found, format!("{}, like the files before it", first.features()));
            return Err(Error::Format { path, flaw });
        }
        sequences.push(sequence);
    }
    Ok(sequences)
}

/// The files `*.npy` of a folder, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).map_err(Error::file("read", folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("read", folder))?.path();
        if path.extension().is_some_and(|e| e == "npy") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads one file.
pub fn load(path: &Path) -> Result<Sequence, Error> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::file("read", path))?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(Error::file("read", path))?;
    if bytes.len() as u64 > MOST_BYTES {
        let flaw = Flaw::new(MOST_BYTES, "more bytes", format!("a file of at most {MOST_BYTES} bytes"));
        return Err(Error::Format { path: path.into(), flaw });
    }
    let sequence = parse(&bytes).map_err(Error::format(path))?;
    Ok(sequence.named(path.display().to_string()))
}

/// The dictionary, and where it begins.
fn split_header(file: &[u8]) -> Result<(&[u8], usize), Flaw> {
    let ends = |expected: &str| Flaw::new(file.len() as u64, "the end of the file", expected);
    if !file.starts_with(MAGIC) {
        let found = file[..file.len().min(MAGIC.len())].escape_ascii();
        return Err(Flaw::new(0, format!("\"{found}\""), format!("\"{}\"", MAGIC.escape_ascii())));
    }
    let &[major, minor] = file[6..].first_chunk().ok_or_else(|| ends("the version of the format"))?;
    let length = &file[8..];
    let expected = "the length of the header";
    let (len, start) = match (major, minor) {
        (1, 0) => {
            length.first_chunk().map(|&b| (usize::from(u16::from_le_bytes(b)), 10)).ok_or_else(|| ends(expected))?
        }
        (2 | 3, 0) => {
            length.first_chunk().map(|&b| (u32::from_le_bytes(b) as usize, 12)).ok_or_else(|| ends(expected))?
        }
        _ => return Err(Flaw::new(6, format!("version {major}.{minor} of the format"), "version 1.0, 2.0 or 3.0")),
    };
    let header = file[start..].get(..len).ok_or_else(|| ends(&format!("a header of {len} bytes")))?;
    Ok((header, start))
}

/// How numbers are written.
#[derive(Clone, Copy)]
enum Numbers {
    F32Little,
    F32Big,
    F64Little,
    F64Big,
}

impl Numbers {
    fn size(self) -> usize {
        match self {
            Self::F32Little | Self::F32Big => 4,
            Self::F64Little | Self::F64Big => 8,
        }
    }

    fn decode(self, data: &[u8]) -> Vec<f64> {
        let (fours, _) = data.as_chunks();
        let (eights, _) = data.as_chunks();
        match self {
            Self::F32Little => fours.iter().map(|&b| f32::from_le_bytes(b).into()).collect(),
            Self::F32Big => fours.iter().map(|&b| f32::from_be_bytes(b).into()).collect(),
            Self::F64Little => eights.iter().map(|&b| f64::from_le_bytes(b)).collect(),
            Self::F64Big => eights.iter().map(|&b| f64::from_be_bytes(b)).collect(),
        }
    }
}

/// What the dictionary says.
struct Header {
    numbers: Numbers,
    fortran_order: bool,
    shape: [usize; 2],
    shape_at: usize,
}

impl Header {
    fn parse(text: &[u8], start: usize) -> Result<Self, Flaw> {
        let mut scanner = Scanner { text, start, at: 0 };
        let (mut numbers, mut fortran_order, mut shape) = (None, None, None);
        scanner.expect("{")?;
        while !scanner.skip("}") {
            let key_at = scanner.place();
            let key = scanner.quoted("a key in quotes")?;
            scanner.expect(":")?;
            let value_at = scanner.place();
            let repeated = match key {
                "descr" => numbers.replace(scanner.numbers()?).is_some(),
                "fortran_order" => fortran_order.replace(scanner.boolean()?).is_some(),
                "shape" => shape.replace((scanner.shape()?, value_at)).is_some(),
                _ => true,
            };
            if repeated {
                let expected = "each of 'descr', 'fortran_order' and 'shape' once";
                return Err(Flaw::new(key_at, format!("the key '{key}'"), expected));
            }
            if !scanner.skip(",") {
                scanner.expect("}")?;
                break;
            }
        }
        let end = scanner.place();
        if scanner.rest() != b"\n" {
            return Err(Flaw::new(end, scanner.found(), "spaces and one line break to the end of the header"));
        }
        let missing = |key: &str| Flaw::new(end, format!("a dictionary without '{key}'"), "one with it");
        let (shape, shape_at) = shape.ok_or_else(|| missing("shape"))?;
        Ok(Self {
            numbers: numbers.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape,
            shape_at: shape_at as usize,
        })
    }
}

/// Reads the few tokens of Python that a header consists of, with spaces between them.
struct Scanner<'a> {
    text: &'a [u8],
    start: usize,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Where the next token begins, in the file.
    fn place(&mut self) -> u64 {
        self.at += self.text[self.at..].iter().take_while(|&&byte| byte == b' ').count();
        (self.start + self.at) as u64
    }

    fn rest(&mut self) -> &'a [u8] {
        self.place();
        &self.text[self.at..]
    }

    fn found(&mut self) -> String {
        match self.rest() {
            [] => "the end of the header".into(),
            rest => format!("{:?}", String::from_utf8_lossy(&rest[..rest.len().min(16)])),
        }
    }

    fn flaw(&mut self, expected: &str) -> Flaw {
        Flaw::new(self.place(), self.found(), expected)
    }

    fn skip(&mut self, token: &str) -> bool {
        let there = self.rest().starts_with(token.as_bytes());
        self.at += if there { token.len() } else { 0 };
        there
    }

    fn expect(&mut self, token: &str) -> Result<(), Flaw> {
        if self.skip(token) { Ok(()) } else { Err(self.flaw(&format!("\"{token}\""))) }
    }

    fn quoted(&mut self, expected: &str) -> Result<&'a str, Flaw> {
        let rest = self.rest();
        let Some((quote @ (b'\'' | b'"'), inside)) = rest.split_first() else {
            return Err(self.flaw(expected));
        };
        let end = inside.iter().position(|byte| byte == quote);
        let text = end.and_then(|end| str::from_utf8(&inside[..end]).ok()).ok_or_else(|| self.flaw(expected))?;
        self.at += text.len() + 2;
        Ok(text)
    }

    fn numbers(&mut self) -> Result<Numbers, Flaw> {
        let at = self.place();
        let expected = "the type '<f4', '<f8', '>f4' or '>f8'";
        match self.quoted(expected)? {
            "<f4" => Ok(Numbers::F32Little),
            ">f4" => Ok(Numbers::F32Big),
            "<f8" => Ok(Numbers::F64Little),
            ">f8" => Ok(Numbers::F64Big),
            other => Err(Flaw::new(at, format!("the type '{other}'"), expected)),
        }
    }

    fn boolean(&mut self) -> Result<bool, Flaw> {
        if self.skip("True") {
            return Ok(true);
        }
        if self.skip("False") { Ok(false) } else { Err(self.flaw("True or False")) }
    }

    fn shape(&mut self) -> Result<[usize; 2], Flaw> {
        let at = self.place();
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.skip(")") {
            sizes.push(self.integer()?);
            if !self.skip(",") {
                self.expect(")")?;
                break;
            }
        }
        match sizes[..] {
            [len, features] if len > 0 && features > 0 => Ok([len, features]),
            _ => {
                Err(Flaw::new(at, format!("the shape {sizes:?}"), "two dimensions (length, features), both at least 1"))
            }
        }
    }

    fn integer(&mut self) -> Result<usize, Flaw> {
        let rest = self.rest();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| self.flaw("a size"))?;
        self.at += digits;
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(version: u8, dictionary: &str, data: &[u8]) -> Vec<u8> {
        let len = dictionary.len() as u32 + 1;
        let len = if version == 1 { (len as u16).to_le_bytes().to_vec() } else { len.to_le_bytes().to_vec() };
        [MAGIC, &[version, 0], &len, dictionary.as_bytes(), b"\n", data].concat()
    }

    fn flaw(bytes: &[u8]) -> String {
        parse(bytes).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_of_number_and_order_is_read() {
        let numbers = [1.5f64, -2.0, 3.25, 4.0, 5.0, 6.0];
        let transposed = [1.5f64, 4.0, -2.0, 5.0, 3.25, 6.0];
        let right = Sequence::new(3, numbers.to_vec());
        for version in 1..=3 {
            for (order, rows) in [("False", numbers), ("True", transposed)] {
                for (descr, data) in [
                    ("<f8", rows.map(f64::to_le_bytes).concat()),
                    (">f8", rows.map(f64::to_be_bytes).concat()),
                    ("<f4", rows.map(|x| (x as f32).to_le_bytes()).concat()),
                    (">f4", rows.map(|x| (x as f32).to_be_bytes()).concat()),
                ] {
                    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (2, 3), }}   ");
                    assert_eq!(parse(&file(version, &header, &data)), Ok(right.clone()), "{header}");
                }
            }
        }
    }

    #[test]
    fn keys_may_come_in_any_order_and_quotes() {
        let header = "{\"shape\":(1,1),\"fortran_order\":False,\"descr\":\"<f8\"}";
        assert_eq!(parse(&file(1, header, &2.0f64.to_le_bytes())), Ok(Sequence::new(1, vec![2.0])));
    }

    #[test]
    fn flaws_are_said_with_their_place() {
        let with = |descr: &str, order: &str, shape: &str, data: &[u8]| {
            flaw(&file(1, &format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"), data))
        };
        assert_eq!(flaw(b"\x93NUMPX"), r#"at byte 0: found "\x93NUMPX", expected "\x93NUMPY""#);
        assert_eq!(flaw(b"\x93NUMPY\x01"), "at byte 7: found the end of the file, expected the version of the format");
        assert_eq!(
            flaw(b"\x93NUMPY\x04\0"),
            "at byte 6: found version 4.0 of the format, expected version 1.0, 2.0 or 3.0"
        );
        assert_eq!(
            flaw(b"\x93NUMPY\x02\0\xff\xff\xff\xff{"),
            "at byte 13: found the end of the file, expected a header of 4294967295 bytes"
        );
        assert_eq!(
            with("'<i8'", "False", "(1, 1)", &[0; 8]),
            "at byte 20: found the type '<i8', expected the type '<f4', '<f8', '>f4' or '>f8'"
        );
        assert!(with("[('a', '<f8')]", "False", "(1, 1)", &[0; 8]).contains("found \"[('a', '<f8')], "));
        assert!(with("'<f8'", "0", "(1, 1)", &[0; 8]).ends_with("expected True or False"));
        for shape in ["()", "(1,)", "(1, 1, 1)", "(0, 17)", "(17, 0)"] {
            assert!(with("'<f8'", "False", shape, &[0; 8]).ends_with("both at least 1"), "{shape}");
        }
        assert!(with("'<f8'", "False", "(-1, 1)", &[0; 8]).ends_with("found \"-1, 1), }\\n\", expected a size"));
        assert!(with("'<f8'", "False", "(4294967296, 4294967296)", &[]).ends_with("an array that fits in memory"));
        assert_eq!(
            with("'<f8'", "False", "(2, 1)", &[0; 15]),
            "at byte 85: found the end of the file, expected 16 bytes after the header of 70: 2 × 1 numbers of 8"
        );
        assert!(with("'<f8'", "False", "(2, 1)", &[0; 17]).starts_with("at byte 86: found more bytes"));
        let nan = [1.0, f64::NAN].map(f64::to_le_bytes).concat();
        assert_eq!(with("'<f8'", "False", "(2, 1)", &nan), "at byte 78: found NaN, expected a finite number");
    }

    #[test]
    fn a_dictionary_is_read_strictly() {
        let refused = |header: &str| flaw(&file(1, header, &[0; 8]));
        for (header, part) in [
            ("{'descr': '<f8', 'fortran_order': False}", "without 'shape'"),
            ("{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (1, 1)}", "the key 'descr'"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), 'more': 1}", "the key 'more'"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1)} x", "to the end of the header"),
            ("{'descr': '<f8' 'fortran_order': False, 'shape': (1, 1)}", "expected \"}\""),
            ("{'descr: 1}", "a key in quotes"),
            ("", "expected \"{\""),
        ] {
            assert!(refused(header).contains(part), "{}", refused(header));
        }
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, shape: &str, numbers: &[f64]| {
            let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
            let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            std::fs::write(dir.path().join(name), file(1, &header, &data)).unwrap();
        };
        write("b.npy", "(1, 2)", &[3.0, 4.0]);
        write("a.npy", "(2, 2)", &[1.0, 2.0, 5.0, 6.0]);
        std::fs::write(dir.path().join("notes.txt"), "no array").unwrap();
        let sequences = load_folder(dir.path()).unwrap();
        assert_eq!(sequences.iter().map(Sequence::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((sequences[0].step(1), sequences[1].step(0)), (&[5.0, 6.0][..], &[3.0, 4.0][..]));

        write("c.npy", "(2, 1)", &[3.0, 4.0]);
        let message = load_folder(dir.path()).unwrap_err().to_string();
        assert!(message.contains("c.npy") && message.contains("found 1 features, expected 2"), "{message}");
    }
}
