//! Pages in a single file, for light and dark screens, on phones and desktops.

/// Returns a page of these parts, which are HTML. `style` is CSS in addition to [`STYLE`].
pub fn page(title: &str, style: &str, parts: &[String]) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{COLOURS}{STYLE}{style}</style>\n<body>\n<h1>{title}</h1>\n{}</body>\n",
        parts.concat()
    )
}

pub fn heading(text: &str) -> String {
    format!("<h2>{}</h2>\n", escape(text))
}

pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escape(text))
}

/// Box with the results, a sentence each.
pub fn verdicts(sentences: &[String]) -> String {
    format!("<div class=\"verdict\">\n{}</div>\n", paragraphs(sentences))
}

/// Returns a list of claims: for each the CSS class (`holds`, `fails` or `open`), the verdict in a word, and the claim.
pub fn claims(claims: &[(&str, &str, &str)]) -> String {
    let line = |(class, word, says): &(&str, &str, &str)| {
        format!("<li><b class=\"{class}\">{}</b> {}</li>\n", escape(word), escape(says))
    };
    format!("<ul>\n{}</ul>\n", claims.iter().map(line).collect::<String>())
}

pub fn paragraphs(lines: &[String]) -> String {
    lines.iter().map(|line| paragraph(line)).collect()
}

pub fn points(lines: &[String]) -> String {
    let points: String = lines.iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    format!("<ul>\n{points}</ul>\n")
}

/// Returns a table whose first row is the header. All columns but the first are aligned right.
pub fn table(rows: &[Vec<String>]) -> String {
    let line = |tag: &str, row: &Vec<String>| {
        let cells: String = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let Some((header, rows)) = rows.split_first() else { return String::new() };
    let rows: String = rows.iter().map(|row| line("td", row)).collect();
    format!("<div class=\"wide\"><table>\n{}{rows}</table></div>\n", line("th", header))
}

/// Returns two plots, side by side if there is room.
pub fn pair(left: &str, right: &str) -> String {
    format!("<div class=\"pair\">{left}{right}</div>\n")
}

/// Returns an open section that can be folded.
pub fn folded(title: &str, inner: &str) -> String {
    format!("<details open><summary>{}</summary>\n{inner}</details>\n", escape(title))
}

/// Returns a folded section that can be opened.
pub fn closed(title: &str, inner: &str) -> String {
    format!("<details><summary>{}</summary>\n{inner}</details>\n", escape(title))
}

/// Draws plots beside each other where there is room, each under its title.
pub fn plots<'p>(plots: impl IntoIterator<Item = (&'p str, &'p str)>) -> String {
    let plot = |(title, svg): (&str, &str)| format!("<section><h3>{}</h3>\n{svg}</section>\n", escape(title));
    format!("<div class=\"plots\">\n{}</div>\n", plots.into_iter().map(plot).collect::<String>())
}

/// A picture as a separate file, with the colours and styles that it has in a page.
pub fn standalone(svg: &str) -> String {
    let style = format!(
        "<style>{COLOURS}{STYLE}svg {{ background: var(--back); font-family: system-ui, sans-serif; }}</style>"
    );
    let (open, rest) = svg.split_once('>').unwrap_or((svg, ""));
    format!("{open} xmlns=\"http://www.w3.org/2000/svg\">{style}{rest}")
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Hues that remain distinct with most kinds of colour blindness (Okabe and Ito, 2008), a little darker in light mode.
pub const COLOURS: &str = "
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --dim: #59636e; --line: #d5dae0; --card: #f4f6f8;
  --good: #1a7f37; --bad: #c0392b;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #a3478a; --s4: #b88600; --s5: #3a9bd0; --s6: #6b6b6b; --s7: #8a4b1f; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #e6e9ed; --dim: #9aa4b0; --line: #343b44;
  --card: #1d2228; --good: #4ac26b; --bad: #ff7b6b;
  --s0: #4aa8e0; --s1: #ff8a4c; --s2: #2fc79a; --s3: #d88cc0; --s4: #e6b422; --s5: #8fd0f5; --s6: #a8a8a8; --s7: #c98a5a; } }
";

/// Style of pages and plots, in those colours.
pub const STYLE: &str = "
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.4rem; } p { margin: .4rem 0; } ul { padding-left: 1.2rem; }
.verdict { background: var(--card); border-left: 4px solid var(--s0); padding: .5rem 1rem; margin: 1rem 0; font-weight: 600; }
.holds { color: var(--good); } .fails { color: var(--bad); } .open { color: var(--dim); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); gap: .5rem 2rem; }
.plots h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
.wide { overflow-x: auto; } .pair { display: flex; flex-wrap: wrap; gap: 1rem; } .pair figure { flex: 1 1 320px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--dim); font-weight: 600; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; }
details summary { cursor: pointer; color: var(--dim); margin-top: 1rem; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font-size: 12px; }
@media (max-width: 600px) { svg text { font-size: 19px; } .intervals text { font-size: 15px; } }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
.grid { stroke: var(--line); } .mark { stroke: var(--s4); stroke-width: 2; stroke-dasharray: 3 3; } .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.dashed { stroke-dasharray: 6 4; } .band { stroke: none; opacity: .15; }
.panels .title { font-weight: 600; } .shade { fill: var(--s4); opacity: .22; } .figure { stroke: var(--text); stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: 13px; }
.legend i { display: inline-block; width: 1.1em; height: .25em; margin-right: .4em; vertical-align: middle; }
.s0 { stroke: var(--s0); background: var(--s0); } .s1 { stroke: var(--s1); background: var(--s1); }
.s2 { stroke: var(--s2); background: var(--s2); } .s3 { stroke: var(--s3); background: var(--s3); }
.s4 { stroke: var(--s4); background: var(--s4); } .s5 { stroke: var(--s5); background: var(--s5); }
.s6 { stroke: var(--s6); background: var(--s6); } .s7 { stroke: var(--s7); background: var(--s7); }
.f0 { fill: var(--s0); } .f1 { fill: var(--s1); } .f2 { fill: var(--s2); } .f3 { fill: var(--s3); }
.f4 { fill: var(--s4); } .f5 { fill: var(--s5); } .f6 { fill: var(--s6); } .f7 { fill: var(--s7); }
";
