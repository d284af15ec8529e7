//! Tables, for people (HTML, Markdown, a terminal) and for programs (CSV).

use maud::{Markup, html};

use super::spread::Spread;

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in CSV.
    pub key: &'static str,
    /// Its title, with the unit.
    pub title: &'static str,
    /// Whether a terminal shows it.
    pub on_terminal: bool,
    /// Whether it depends on the machine, not on the run alone.
    pub of_machine: bool,
}

impl Column {
    /// A column that a terminal shows.
    pub fn main(key: &'static str, title: &'static str) -> Self {
        Self { key, title, on_terminal: true, of_machine: false }
    }

    /// A column that it does not show.
    pub fn more(key: &'static str, title: &'static str) -> Self {
        Self { on_terminal: false, ..Self::main(key, title) }
    }

    /// A column of what was measured on a machine.
    pub fn of_machine(key: &'static str, title: &'static str) -> Self {
        Self { of_machine: true, ..Self::more(key, title) }
    }
}

/// What stands in a row and a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number over seeds, with this many decimals.
    Number(Spread, usize),
    /// The paper's mean and standard deviation, with this many decimals.
    Paper(f64, f64, usize),
    /// Nothing is known.
    Missing,
}

impl Cell {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(spread, decimals) => spread.text(*decimals),
            Self::Paper(mean, std, decimals) => format!("{mean:.decimals$} ± {std:.decimals$}"),
            Self::Missing => "–".into(),
        }
    }

    /// For programs: the number in full, and its standard deviation.
    fn csv(&self) -> [String; 2] {
        match self {
            Self::Text(text) if text.contains([',', '"', '\n']) => {
                [format!("\"{}\"", text.replace('"', "\"\"")), String::new()]
            }
            Self::Text(text) => [text.clone(), String::new()],
            Self::Number(Spread { mean, .. }, _) if mean.is_nan() => Default::default(),
            Self::Number(Spread { mean, std, .. }, _) => {
                [mean.to_string(), std.map_or(String::new(), |s| s.to_string())]
            }
            Self::Paper(mean, std, _) => [mean.to_string(), std.to_string()],
            Self::Missing => Default::default(),
        }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name in files.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The columns; the first names the row.
    pub columns: Vec<Column>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|column| column.title.into()).collect());
        text += &format!("|{}\n", "---|".repeat(self.columns.len()));
        self.rows.iter().for_each(|row| text += &line(row.iter().map(Cell::text).collect()));
        text
    }

    /// As CSV: every number with its standard deviation in the next column.
    pub fn csv(&self) -> String {
        let is_number = |i: usize| self.rows.iter().any(|row| !matches!(row[i], Cell::Text(_)));
        let pair = |i: usize, [value, std]: [String; 2]| if is_number(i) { vec![value, std] } else { vec![value] };
        let line = |cells: Vec<[String; 2]>| {
            let cells: Vec<String> = cells.into_iter().enumerate().flat_map(|(i, cell)| pair(i, cell)).collect();
            cells.join(",") + "\n"
        };
        let names = self.columns.iter().map(|column| [column.key.into(), format!("{}_std", column.key)]);
        let mut text = line(names.collect());
        self.rows.iter().for_each(|row| text += &line(row.iter().map(Cell::csv).collect()));
        text
    }

    /// In columns of equal width: what a terminal shows of it.
    pub fn terminal(&self) -> String {
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&i| self.columns[i].on_terminal).collect();
        let mut lines = vec![shown.iter().map(|&i| self.columns[i].title.to_string()).collect::<Vec<_>>()];
        lines.extend(self.rows.iter().map(|row| shown.iter().map(|&i| row[i].text()).collect()));
        let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..shown.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let mut cells = line.iter().zip(&widths);
            let (first, width) = cells.next().expect("a column that names the row");
            text += &format!("{first:<width$}");
            cells.for_each(|(cell, width)| text += &format!("  {cell:>width$}"));
            text = text.trim_end().to_string() + "\n";
        }
        text
    }

    /// For the page. It scrolls by itself where it is too wide.
    pub(super) fn html(&self) -> Markup {
        html! {
            div.table tabindex="0" {
                table id=(self.name) {
                    caption { (self.title) }
                    thead { tr { @for column in &self.columns { th scope="col" data-key=(column.key) { (column.title) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr {
                                @for (column, cell) in self.columns.iter().zip(row) {
                                    @if column.key == self.columns[0].key { th scope="row" { (cell.text()) } }
                                    @else if column.of_machine { td.machine { (cell.text()) } }
                                    @else { td { (cell.text()) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            name: "t".into(),
            title: "T".into(),
            columns: vec![Column::main("run", "run"), Column::main("a", "A, %"), Column::more("b", "B")],
            rows: vec![
                vec![Cell::Text("x, y".into()), Cell::Number(Spread::of(&[1.0, 2.0]), 1), Cell::Paper(3.0, 0.5, 2)],
                vec![Cell::Text("z".into()), Cell::Number(Spread::of(&[0.125]), 1), Cell::Missing],
            ],
        }
    }

    #[test]
    fn every_form_shows_the_same() {
        assert_eq!(
            table().markdown(),
            "| run | A, % | B |\n|---|---|---|\n| x, y | 1.5 ± 0.7 | 3.00 ± 0.50 |\n| z | 0.1 | – |\n"
        );
        assert_eq!(table().csv(), "run,a,a_std,b,b_std\n\"x, y\",1.5,0.7071067811865476,3,0.5\nz,0.125,,,\n");
        assert_eq!(table().terminal(), "run        A, %\nx, y  1.5 ± 0.7\nz           0.1\n");
        let html = table().html().into_string();
        assert!(html.contains("<td>1.5 ± 0.7</td><td>3.00 ± 0.50</td>"), "{html}");
    }
}
