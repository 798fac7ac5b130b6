//! Expansion of `${NAME}`. Only string values are expanded, after parsing, so a variable cannot change the
//! structure of the file. `$NAME` is left alone, because passwords contain `$`.

use crate::code::Code;
use crate::diagnostic::Findings;
use crate::tree::{Node, Tree};

/// Lookup of an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Expands every reference in the strings below `node`, and reports undefined variables.
pub(crate) fn expand(node: &mut Node, env: Env<'_>, findings: &mut Findings) {
    match &mut node.tree {
        Tree::Text(text) => match replace(text, env) {
            Ok(new) => *text = new,
            Err(Problem::Undefined(name)) => {
                node.tree = Tree::Broken;
                findings
                    .add(Code::Undefined, node.span, format!("the environment variable \"{name}\" is not defined"))
                    .help(format!("set it, or give a default: ${{{name}:-value}}; \"$${{\" is a literal \"${{\""));
            }
            Err(Problem::Bad(why)) => {
                node.tree = Tree::Broken;
                let why = if findings.is_hidden(node.span) { "invalid reference".to_string() } else { why };
                findings.add(Code::Reference, node.span, why).help(
                    "write ${NAME} or ${NAME:-default}, a name of letters, digits and _; \"$${\" is a literal \"${\"",
                );
            }
        },
        Tree::List(nodes) => nodes.iter_mut().for_each(|n| expand(n, env, findings)),
        Tree::Table(table) => table.entries.iter_mut().for_each(|e| expand(&mut e.node, env, findings)),
        _ => {}
    }
}

enum Problem {
    Undefined(String),
    Bad(String),
}

fn replace(text: &str, env: Env<'_>) -> Result<String, Problem> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let Some(end) = inner.find('}') else {
            return Err(Problem::Bad(format!("\"{}\" is not closed", short(&rest[at..]))));
        };
        let (name, default) = match inner[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inner[..end], None),
        };
        let first_is_digit = name.starts_with(|c: char| c.is_ascii_digit());
        if name.is_empty() || first_is_digit || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(Problem::Bad(format!("\"{}\" is not a variable name", short(name))));
        }
        // As in the shell, `:-` also replaces a variable that is empty.
        let value = env(name).filter(|v| default.is_none() || !v.is_empty());
        match (value, default) {
            (Some(value), _) => out.push_str(&value),
            (None, Some(default)) => out.push_str(default),
            (None, None) => return Err(Problem::Undefined(name.to_string())),
        }
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Option<String> {
        let env = |name: &str| match name {
            "A" => Some("one".to_string()),
            "EMPTY" => Some(String::new()),
            "ODD" => Some("${A}".to_string()),
            _ => None,
        };
        replace(text, &env).ok()
    }

    #[test]
    fn replaces_names_defaults_and_literals() {
        assert_eq!(with("<${A}-${A}>").as_deref(), Some("<one-one>"));
        assert_eq!(with("${B:-two}").as_deref(), Some("two"));
        assert_eq!(with("${B:-}").as_deref(), Some(""));
        assert_eq!(with("${EMPTY:-x}${EMPTY}").as_deref(), Some("x"));
        assert_eq!(with("$${A} $A $").as_deref(), Some("${A} $A $"));
        assert_eq!(with("${ODD}").as_deref(), Some("${A}"), "a value is never expanded again");
    }

    #[test]
    fn refuses_what_it_cannot_replace() {
        for text in ["${B}", "${", "${A", "${}", "${A B}", "${1}", "${:-x}"] {
            assert_eq!(with(text), None, "{text}");
        }
    }
}
