//! Tables of pages. On a narrow screen each row becomes a card, in which every cell has the name of its column.

use maud::{Markup, html};

/// Column of a table, with its label.
pub struct Column {
    label: &'static str,
    is_number: bool,
}

impl Column {
    /// Column of words, which begin at its left.
    pub const fn text(label: &'static str) -> Column {
        Column { label, is_number: false }
    }

    /// Column of figures, which end at its right.
    pub const fn number(label: &'static str) -> Column {
        Column { label, is_number: true }
    }
}

/// Row of a table, a cell for each column. The first cell names the row.
#[derive(Default)]
pub struct Row {
    /// Fragment that leads to the row.
    pub id: Option<String>,
    /// True if the row is pointed out.
    pub is_marked: bool,
    /// Cells in the order of the columns.
    pub cells: Vec<Markup>,
}

impl From<Vec<Markup>> for Row {
    fn from(cells: Vec<Markup>) -> Row {
        Row { cells, ..Row::default() }
    }
}

/// Draws a table; `about` describes its content for readers who do not see where it is.
pub fn table(about: &str, columns: &[Column], rows: impl IntoIterator<Item = Row>) -> Markup {
    draw(about, "wide", "stacks", columns, rows)
}

/// Draws a table of few and short columns, which stays a table on a narrow screen.
pub fn compact(about: &str, columns: &[Column], rows: impl IntoIterator<Item = Row>) -> Markup {
    draw(about, "wide compact", "", columns, rows)
}

fn draw(about: &str, place: &str, class: &str, columns: &[Column], rows: impl IntoIterator<Item = Row>) -> Markup {
    html! {
        div class=(place) tabindex="0" role="region" aria-label=(about) { table class=[(!class.is_empty()).then_some(class)] {
            thead { tr { @for column in columns { th.number[column.is_number] scope="col" { (column.label) } } } }
            tbody { @for row in rows { tr.marked[row.is_marked] id=[row.id.as_deref()] {
                @for (at, (column, cell)) in columns.iter().zip(&row.cells).enumerate() {
                    @if at == 0 { th.number[column.is_number] scope="row" { (cell) } }
                    @else if cell.0.is_empty() { td.empty {} }
                    @else { td.number[column.is_number] data-label=(column.label) { (cell) } }
                }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_the_name_of_its_column() {
        const COLUMNS: &[Column] = &[Column::text("Name"), Column::number("Rate"), Column::text("Note")];
        let cells = vec![html! { "one" }, html! { "7" }, html! {}];
        let row = Row { id: Some("shop/one".into()), is_marked: true, cells };
        let drawn = table("Endpoints", COLUMNS, [row]).into_string();
        assert!(drawn.contains("aria-label=\"Endpoints\""), "{drawn}");
        assert!(
            drawn.contains("<tr class=\"marked\" id=\"shop/one\"><th class=\"\" scope=\"row\">one</th>"),
            "{drawn}"
        );
        assert!(drawn.contains("<td class=\"number\" data-label=\"Rate\">7</td><td class=\"empty\"></td>"), "{drawn}");
    }
}
