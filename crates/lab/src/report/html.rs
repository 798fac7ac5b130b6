//! What does the page of an experiment have beside what every page has? Tables whose columns of figures lean right, and the colours of
//! its drawings.

use evenkeel_draw::page::escape;
pub use evenkeel_draw::page::{heading, paragraphs, points};

/// A page of these parts, which are HTML already.
pub fn page(title: &str, parts: &[String]) -> String {
    evenkeel_draw::page::page(title, STYLE, parts)
}

/// A table; columns of figures lean right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let figure = |cell: &String| cell.chars().all(|c| c.is_ascii_digit() || c == '.' || c == '-') || cell == "never";
    let classes: Vec<&str> =
        (0..header.len()).map(|at| if rows.iter().all(|row| figure(&row[at])) { "number" } else { "" }).collect();
    let line = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells =
            cells.zip(&classes).map(|(cell, class)| format!("<{tag} class=\"{class}\">{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = rows.iter().map(|row| line("td", &mut row.iter().map(String::as_str))).collect();
    format!("<div class=\"wide\"><table>\n{}{rows}</table></div>\n", line("th", &mut header.iter().copied()))
}

/// Six hues for endpoints, and what else its drawings show.
const STYLE: &str = "
:root { --band: #f2c94c44; --get: #c0392b; --post: #8e44ad; --p99: #1b1f24;
  --e1: #0072b2; --e2: #e69f00; --e3: #009e73; --e4: #cc79a7; --e5: #56b4e9; --e6: #d55e00; }
@media (prefers-color-scheme: dark) { :root { --band: #f2c94c33; --get: #ff7b6b; --post: #c79be0; --p99: #e6e9ed; } }
th, td { text-align: left; white-space: normal; } th.number, td.number { text-align: right; }
svg .title { font-weight: 600; } svg .fault { fill: var(--text); font-size: 11px; }
.band { fill: var(--band); opacity: 1; } .get { fill: var(--get); } .post { fill: var(--post); }
.p99 { fill: none; stroke: var(--p99); stroke-width: 1.5; }
.e1 { fill: var(--e1); } .e2 { fill: var(--e2); } .e3 { fill: var(--e3); } .e4 { fill: var(--e4); }
.e5 { fill: var(--e5); } .e6 { fill: var(--e6); }
.key::before { content: ''; display: inline-block; width: .8em; height: .8em; margin: 0 .35em 0 1em; background: currentColor; }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_text_stays_text() {
        let table = table(&["n", "<x>"], &[vec!["1".into(), "<b>".into()]]);
        assert!(table.contains("<td class=\"number\">1</td><td class=\"\">&lt;b&gt;"), "{table}");
    }

    #[test]
    fn a_page_takes_nothing_from_elsewhere() {
        let page = page("A", &[heading("B"), paragraphs(&["C".into()]), points(&["D".into()])]);
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("src="), "{page}");
    }
}
