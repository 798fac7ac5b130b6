//! Tables on a terminal: columns as wide as their widest cell, figures right-aligned, words left-aligned.

/// Draws `rows` under `header`, two spaces between columns. Columns of figures and blanks are right-aligned.
pub fn draw(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let leans_right = |column: usize| {
        rows.iter().all(|row| row[column].is_empty() || row[column].starts_with(|c: char| c.is_ascii_digit()))
    };
    let columns: Vec<(usize, bool)> = (0..header.len()).map(|c| (width(c), leans_right(c))).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&columns).map(
            |(cell, &(width, right))| {
                if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            },
        );
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::draw;

    #[test]
    fn figures_lean_right_and_words_left() {
        let rows = [vec!["a".into(), "1.50".into()], vec!["long".into(), "10.25".into()]];
        assert_eq!(draw(&["case", "us"], &rows), "case     us\na      1.50\nlong  10.25\n");
    }
}
