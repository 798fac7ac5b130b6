//! How does the page of an experiment look? One file without anything from elsewhere, readable by day and by night.

/// A page of these parts, which are HTML already.
pub fn page(title: &str, parts: &[String]) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n{}",
        parts.concat()
    )
}

/// A heading.
pub fn heading(text: &str) -> String {
    format!("<h2>{}</h2>\n", escape(text))
}

/// Lines, each a paragraph.
pub fn paragraphs(lines: &[String]) -> String {
    lines.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect()
}

/// Lines, each a point.
pub fn points(lines: &[String]) -> String {
    let points: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul>\n{points}</ul>\n")
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

/// Text as HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Six hues that stay apart for most kinds of colour blindness (Okabe and Ito, 2008), a little darker by day.
const STYLE: &str = "
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --dim: #59636e; --line: #d5dae0; --band: #f2c94c44;
  --get: #c0392b; --post: #8e44ad; --p99: #1b1f24;
  --e1: #0072b2; --e2: #e69f00; --e3: #009e73; --e4: #cc79a7; --e5: #56b4e9; --e6: #d55e00; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #e6e9ed; --dim: #9aa4b0; --line: #343b44;
  --band: #f2c94c33; --get: #ff7b6b; --post: #c79be0; --p99: #e6e9ed; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 1160px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; } p { margin: .4rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left; }
th { color: var(--dim); font-weight: 600; } th.number, td.number { text-align: right; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font-size: 12px; }
svg .title { font-weight: 600; } svg .fault { fill: var(--text); font-size: 11px; }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
.grid { stroke: var(--line); } .band { fill: var(--band); } .get { fill: var(--get); } .post { fill: var(--post); }
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
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
        let table = table(&["n", "<x>"], &[vec!["1".into(), "<b>".into()]]);
        assert!(table.contains("<td class=\"number\">1</td><td class=\"\">&lt;b&gt;"), "{table}");
    }

    #[test]
    fn a_page_takes_nothing_from_elsewhere() {
        let page = page("A", &[heading("B"), paragraphs(&["C".into()]), points(&["D".into()])]);
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("src="), "{page}");
    }
}
