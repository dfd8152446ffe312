//! Columns of text.

/// Lines under a head, as wide as they must be.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

const GAP: usize = 3;

// === impl Table ===

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Self { rows: vec![head] }
    }

    pub(crate) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let padding = width + GAP - cell.chars().count();
                line.push_str(cell);
                line.push_str(&" ".repeat(padding));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// `1 zone`, `2 zones`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// A time without what is less than a second.
pub(crate) fn whole_seconds(time: &str) -> String {
    match time.split_once('.') {
        Some((whole, _)) => format!("{whole}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["A", "LONG", "C"]);
        table.add(vec!["abcd".to_owned(), "x".to_owned(), String::new()]);
        assert_eq!(table.text(), "A      LONG   C\nabcd   x\n");
    }
}
