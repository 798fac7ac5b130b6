//! Comments of the input, kept above the tables that the lines below them became.

use crate::ledger::Ledger;
use crate::model::{Target, name_of};
use std::collections::{HashMap, HashSet};

/// Most lines of a comment that are kept.
const KEPT: usize = 8;

/// Blocks that are no table of the output.
const AROUND: [&str; 7] = ["http", "stream", "http:", "tcp:", "routers:", "services:", "labels:"];

/// First words of lines that name a pool or a listener, with their names behind them.
const NAMING: [&str; 4] = ["upstream", "backend", "frontend", "listen"];

/// Writes comments directly above lines of the file `name` above the tables that these lines became.
pub(crate) fn keep(text: &str, name: &str, target: &mut Target, ledger: &Ledger) {
    if !text.contains('#') {
        return;
    }
    let mut source = Source::new(text);
    let mut named: HashMap<String, usize> = HashMap::new();
    for (at, line) in source.lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let table = match first.strip_suffix(':') {
            Some(key) if second.is_empty() => key,
            _ if NAMING.contains(&first) => second.trim_end_matches('{'),
            _ => continue,
        };
        named.entry(name_of(table)).or_insert(at);
    }
    for listener in &mut target.listeners {
        source.move_to(named.get(&listener.name).copied(), &mut listener.comments);
    }
    for route in &mut target.routes {
        let at = ledger.at(route.line).filter(|(file, _)| *file == name).map(|(_, line)| line - 1);
        for at in at.map_or(Vec::new(), |at| source.around(at)) {
            source.move_to(Some(at), &mut route.comments);
        }
    }
    for pool in &mut target.pools {
        source.move_to(named.get(&pool.name).copied(), &mut pool.comments);
    }
}

struct Source<'a> {
    lines: Vec<&'a str>,
    /// Line of the block around each line, if there is a block.
    outer: Vec<Option<usize>>,
    /// Lines whose comments were taken.
    taken: HashSet<usize>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Source<'a> {
        let lines: Vec<&str> = text.lines().collect();
        let is_braced = lines.iter().any(|line| line.trim_end().ends_with('{'));
        let outer = if is_braced { by_braces(&lines) } else { by_indent(&lines) };
        Source { lines, outer, taken: HashSet::new() }
    }

    /// A line, and the lines of the blocks around it, the innermost first.
    fn around(&self, at: usize) -> Vec<usize> {
        let first_word = |at: usize| self.lines[at].split_whitespace().next().unwrap_or_default();
        let outer = |at: &usize| self.outer[*at].filter(|at| !AROUND.contains(&first_word(*at)));
        std::iter::successors(Some(at).filter(|at| *at < self.lines.len()), outer).collect()
    }

    /// Puts the comment above a line before other comments, unless it has been taken.
    fn move_to(&mut self, at: Option<usize>, comments: &mut Vec<String>) {
        let Some(at) = at.filter(|at| self.taken.insert(*at)) else { return };
        let is_comment = |line: &&&str| line.trim_start().starts_with('#');
        let above: Vec<&&str> = self.lines[..at].iter().rev().take_while(is_comment).take(KEPT).collect();
        let plain = |line: &&str| line.trim_start().trim_start_matches('#').trim().to_string();
        let above: Vec<String> = above.into_iter().rev().map(plain).filter(|line| !line.is_empty()).collect();
        // Blocks come from the inside to the outside, and the comments of the conversion stay behind all of them.
        comments.splice(0..0, above);
    }
}

fn by_braces(lines: &[&str]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut outer = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        outer.push(open.last().copied());
        if line.trim_start().starts_with('#') {
            continue;
        }
        for c in line.chars() {
            match c {
                '{' => open.push(at),
                '}' => drop(open.pop()),
                _ => {}
            }
        }
    }
    outer
}

fn by_indent(lines: &[&str]) -> Vec<Option<usize>> {
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut outer = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if bare.is_empty() || bare.starts_with('#') {
            outer.push(None);
            continue;
        }
        while open.last().is_some_and(|(of, _)| *of >= indent) {
            open.pop();
        }
        outer.push(open.last().map(|(_, at)| *at));
        open.push((indent, at));
    }
    outer
}

#[cfg(test)]
mod tests {
    use crate::convert;
    use evenkeel_config::NoFiles;

    fn converted(name: &str, text: &str) -> String {
        convert(name, text, None, &NoFiles).expect("the format is known").toml
    }

    #[test]
    fn comments_stand_above_the_tables_of_their_lines() {
        let toml = converted(
            "haproxy.cfg",
            "# the site\nfrontend www\n  bind :80\n  # beta users\n  use_backend beta if { hdr(x-b) 1 }\n  default_backend app\n\
             # two lines\n# of it\nbackend app\n  server a 10.0.0.1:80\n\n# far away\n\nbackend beta\n  server b 10.0.0.2:80\n",
        );
        assert!(toml.contains("# the site\n[listener.www]"), "{toml}");
        assert!(toml.contains("# beta users\n[[route]]"), "{toml}");
        assert!(toml.contains("# two lines\n# of it\n[pool.app]") && !toml.contains("far away"), "{toml}");
    }

    #[test]
    fn comments_of_blocks_stand_above_the_first_route_in_them() {
        let text = "http {\n # all of it\n server {\n  listen 80;\n  # the API\n  location /api {\n   # where it runs\n   \
                    proxy_pass http://10.0.0.1:80;\n  }\n  location / { proxy_pass http://10.0.0.2:80; }\n }\n}\n";
        let toml = converted("nginx.conf", text);
        assert!(toml.contains("\n# all of it\n# the API\n"), "{toml}");
        assert_eq!(toml.matches("# all of it").count(), 1, "{toml}");
    }
}
