//! ACLs: named and anonymous conditions of rules, read into formulas.

use super::criteria::{self, Atom};
use super::lexer::{Item, Section};
use super::logic::Expr;
use super::samples::Context;
use crate::model::{Cond, Key};
use std::collections::BTreeMap;

/// Named conditions of a section. Lines with the same name are alternatives.
pub(super) type Acls = BTreeMap<String, Expr>;

/// Adds `acl NAME ...`, given without its first word.
pub(super) fn add(words: &[String], context: &Context<'_>, acls: &mut Acls) {
    let Some(name) = words.first() else { return };
    let read = criteria::read(&words[1..], context);
    let all = acls.remove(name).unwrap_or(Expr::Const(false));
    acls.insert(name.clone(), all.or(read));
}

/// Renames the ACLs of `defaults`, which only its own rules know: other sections may have ACLs of these names.
pub(super) fn own_names(defaults: &mut Section) {
    let is_acl = |item: &Item| item.word(0) == "acl";
    let names: Vec<String> = defaults.items.iter().filter(|item| is_acl(item)).map(|i| i.word(1).to_string()).collect();
    for item in &mut defaults.items {
        let from = match is_acl(item) {
            true => 1,
            false => item.words.iter().position(|word| word == "if" || word == "unless").unwrap_or(item.words.len()),
        };
        let mut in_braces = false;
        for (at, word) in item.words.iter_mut().enumerate().skip(from) {
            in_braces |= word.ends_with('{');
            let name = word.trim_start_matches('!');
            if !in_braces && (from > 1 || at == 1) && names.iter().any(|other| other == name) {
                *word = format!("{}defaults/{name}", &word[..word.len() - name.len()]);
            }
            in_braces &= word != "}";
        }
    }
}

/// Reads the condition of a rule: `if ...`, `unless ...`, or nothing. A condition that cannot be read is unknown.
pub(super) fn condition(words: &[String], acls: &Acls, context: &Context<'_>) -> Expr {
    let negated = match words.first().map(String::as_str) {
        None => return Expr::Const(true),
        Some("if") => false,
        Some("unless") => true,
        Some(word) => return Expr::unknown(format!("\"{word}\" is neither `if` nor `unless`")),
    };
    match terms(&words[1..], acls, context) {
        Ok(read) if negated => read.not(),
        Ok(read) => read,
        Err(reason) => Expr::unknown(reason),
    }
}

fn terms(words: &[String], acls: &Acls, context: &Context<'_>) -> Result<Expr, String> {
    let (mut any, mut all, mut is_empty) = (Expr::Const(false), Expr::Const(true), true);
    let (mut at, mut negated) = (0, false);
    while let Some(word) = words.get(at) {
        let mut word = word.as_str();
        while let Some(rest) = word.strip_prefix('!') {
            negated = !negated;
            word = rest;
        }
        let term = match word {
            "" | "and" | "&&" => None,
            "or" | "||" => {
                // Nothing at all would hold for every request.
                if std::mem::replace(&mut is_empty, true) {
                    return Err("an alternative is empty".to_string());
                }
                any = any.or(std::mem::replace(&mut all, Expr::Const(true)));
                None
            }
            "{" => {
                let end =
                    words[at..].iter().position(|word| word == "}").map(|n| at + n).ok_or("a brace is not closed")?;
                let read = criteria::read(&words[at + 1..end], context);
                at = end;
                Some(read)
            }
            name => Some(match acls.get(name) {
                Some(read) => read.clone(),
                None => predefined(name).ok_or_else(|| format!("unknown acl \"{name}\""))?,
            }),
        };
        if let Some(term) = term {
            all = all.and(if std::mem::take(&mut negated) { term.not() } else { term });
            is_empty = false;
        }
        at += 1;
    }
    if is_empty { Err("an alternative is empty".to_string()) } else { Ok(any.or(all)) }
}

/// ACLs that HAProxy defines itself (section 7.4 of its manual).
fn predefined(name: &str) -> Option<Expr> {
    let method = |names: &[&str]| Expr::from(Cond::one_of(Key::Method, names.iter().copied()));
    Some(match name {
        "TRUE" | "HTTP" => Expr::Const(true),
        "FALSE" => Expr::Const(false),
        "HTTP_1.0" | "HTTP_1.1" | "HTTP_2.0" => Expr::unknown("it asks for the version of HTTP"),
        "LOCALHOST" => Cond::one_of(Key::Client, ["127.0.0.0/8", "::1"]).into(),
        "METH_GET" => method(&["GET", "HEAD"]),
        "REQ_CONTENT" | "WAIT_END" => Expr::unknown(format!("`{name}` is not available as a condition")),
        name if name.starts_with("METH_") => method(&[&name[5..]]),
        _ => return None,
    })
}

/// True for tests of a field or of the host. A name that ends in a star is a beginning.
pub(super) fn is_of_field(atom: &Atom, name: &str) -> bool {
    match atom {
        Atom::Field(test) => fits(name, &test.name),
        Atom::Is(Cond { key: Key::Header(other), .. }) => fits(name, other),
        Atom::Host(_) | Atom::Is(Cond { key: Key::Host, .. }) => fits(name, "host"),
        Atom::Auth(_) => fits(name, "authorization"),
        Atom::Is(Cond { key: Key::Cookie(_), .. }) => fits(name, "cookie"),
        _ => false,
    }
}

/// True if a name or beginning in lower case stands for a field.
pub(super) fn fits(pattern: &str, field: &str) -> bool {
    let field = field.to_ascii_lowercase();
    pattern.strip_suffix('*').map_or(pattern == field, |start| field.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::haproxy::lexer::words;
    use crate::model::{Maps, Match, Test};
    use evenkeel_config::NoFiles;

    fn matches(condition_text: &str, lines: &[&str]) -> Result<Vec<Match>, String> {
        let maps = Maps::default();
        let context = Context { maps: &maps, files: &NoFiles, port: None };
        let mut acls = Acls::new();
        lines.iter().for_each(|line| add(&words(line)[1..], &context, &mut acls));
        let read = condition(&words(condition_text), &acls, &context).alternatives(&maps)?;
        Ok(read.into_iter().map(|conj| conj.matching).collect())
    }

    fn of(text: &str) -> Vec<Cond> {
        let all = matches(&format!("if {{ {text} }}"), &[]).expect(text);
        all.into_iter().flat_map(|one| one.conds).collect()
    }

    fn path(test: Test) -> Cond {
        Cond::new(Key::Path, test)
    }

    #[test]
    fn lines_of_one_name_are_alternatives_and_names_of_a_condition_all_hold() {
        let lines = ["acl api path_beg /api", "acl api path /rpc", "acl get method GET"];
        let get = Cond::one_of(Key::Method, ["GET"]);
        assert_eq!(
            matches("if api get", &lines),
            Ok(vec![
                Match::of([path(Test::Begins("/api".into())), get.clone()]),
                Match::of([path(Test::OneOf(vec!["/rpc".into()])), get.clone()]),
            ])
        );
        assert_eq!(
            matches("unless api", &lines),
            Ok(vec![Match::of([
                path(Test::Begins("/api".into())).negate(),
                path(Test::OneOf(vec!["/rpc".into()])).negate()
            ])])
        );
        assert_eq!(matches("if !api or get", &lines).map(|all| all.len()), Ok(2));
        assert_eq!(matches("if { path_beg / } || !get", &lines).map(|all| all.len()), Ok(1));
    }

    #[test]
    fn unless_negates_the_whole_condition() {
        let lines = ["acl a path /a", "acl get method GET"];
        let wanted = vec![
            Match::of([path(Test::OneOf(vec!["/a".into()])).negate()]),
            Match::of([Cond::one_of(Key::Method, ["GET"]).negate()]),
        ];
        assert_eq!(matches("unless a get", &lines), Ok(wanted));
        assert_eq!(matches("unless { ssl_fc }", &[]), Ok(vec![Match::of([Cond::one_of(Key::Scheme, ["http"])])]));
    }

    #[test]
    fn hosts_are_read_in_every_form() {
        for (text, hosts) in [
            ("hdr(host) -i A.test b.test", vec!["a.test", "b.test"]),
            ("req.hdr(host),lower a.test:8080", vec!["a.test"]),
            ("hdr_end(host) .a.test", vec!["*.a.test"]),
            ("hdr(host),field(1,:) -i a.test", vec!["a.test"]),
            ("req.hdr(host) -m end .a.test", vec!["*.a.test"]),
        ] {
            assert_eq!(of(text), [Cond::one_of(Key::Host, hosts)], "{text}");
        }
        let host = |test: Test| [Cond::new(Key::Header("Host".into()), test)];
        assert_eq!(of("hdr_beg(host) blog."), host(Test::Begins("blog.".into())));
        assert_eq!(of("hdr_dom(host) a"), host(Test::Regex("(.*[/?.:])?a([/?.:].*)?".into())));
    }

    #[test]
    fn elements_of_a_field_are_compared() {
        let field = |regex: &str| [Cond::new(Key::Header("X-A".into()), Test::Regex(regex.into()))];
        assert_eq!(of("req.hdr(X-A) s"), field("(.*,)?\\s*s\\s*(,.*)?"));
        assert_eq!(of("hdr_sub(X-A) -i bot"), field("(?i).*bot.*"));
        assert!(matches("if { path,regsub(a,b) -m str x }", &[]).is_err());
        assert!(matches("if HTTP_2.0", &[]).is_err());
    }
}
