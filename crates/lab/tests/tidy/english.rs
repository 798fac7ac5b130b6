//! Budgets of English: how often comments of a crate may use words that make its prose dense. Rustls, ripgrep, quinn and
//! linkerd2-proxy use "one" 14 to 21 times per 1,000 lines of comments, "what" 0.3 to 1.6 times, "that of" up to 0.3
//! times, and "of its own" never.
//!
//! Counted are the words of all lines below `src/` that begin with `//`, without regard to case. A phrase is not
//! interrupted by punctuation.

use crate::rule::{File, Finding, Rule, sample};

/// Rules of this file, see [`Rule`].
pub static RULES: &[Rule] = &[
    Rule {
        name: "comments stay within the budget of their crate",
        check: budgets,
        kept_by: &[("crates/acme/src/a.rs", "// one, two, three\nlet one = 1;\n")],
        broken_by: &[("crates/acme/src/a.rs", "/// One by one\n// of the ones that one has, one needs one.\n")],
    },
    Rule {
        name: "every crate has a budget",
        check: budgets,
        kept_by: &[("crates/acme/src/a.rs", "//! x\n")],
        broken_by: &[("crates/attic/src/a.rs", "//! x\n")],
    },
];

/// Phrases that a budget counts, with the goal of the budget and the words to write instead.
struct Habit {
    name: &'static str,
    phrases: &'static [&'static str],
    instead: &'static str,
    /// Uses per 1,000 lines below which no budget has to fall.
    goal: usize,
}

static HABITS: [Habit; 4] = [
    Habit { name: "one", phrases: &["one", "ones"], instead: "repeat the noun", goal: 25 },
    Habit { name: "what", phrases: &["what"], instead: "two sentences, or the noun that is meant", goal: 2 },
    Habit { name: "that of", phrases: &["that of", "those of"], instead: "repeat the noun", goal: 1 },
    Habit {
        name: "of its own",
        phrases: &["of its own", "of their own"],
        instead: "\"its\", \"separate\", or nothing",
        goal: 1,
    },
];

/// Most uses per 1,000 lines, in the order of [`HABITS`]. They may only fall.
#[rustfmt::skip] // rows of a table
const BUDGETS: &[(&str, [usize; 4])] = &[
    ("acme", [25, 0, 0, 0]),
    ("admin", [25, 2, 1, 1]),
    ("advise", [25, 2, 1, 1]),
    ("balance", [25, 2, 1, 1]),
    ("cache", [25, 2, 1, 1]),
    ("cluster", [25, 2, 1, 1]),
    ("compress", [25, 9, 1, 1]),
    ("config", [25, 2, 1, 1]),
    ("convert", [25, 2, 1, 1]),
    ("discovery", [25, 2, 1, 1]),
    ("disk", [25, 2, 1, 1]),
    ("dns", [25, 3, 1, 3]),
    ("draw", [25, 2, 1, 1]),
    ("envoy", [25, 2, 1, 1]),
    ("evenkeel", [25, 2, 1, 1]),
    ("fetch", [25, 2, 1, 0]),
    ("kernel", [25, 2, 1, 1]),
    ("lab", [25, 2, 1, 1]),
    ("logs", [25, 2, 1, 1]),
    ("net", [25, 2, 1, 1]),
    ("peers", [25, 2, 1, 1]),
    ("proxy", [25, 2, 1, 1]),
    ("runtime", [25, 2, 1, 1]),
    ("sim", [25, 2, 1, 1]),
    ("tls", [25, 2, 1, 0]),
    ("tokens", [25, 2, 1, 0]),
    ("tower", [25, 2, 1, 1]),
    ("view", [25, 2, 1, 1]),
    ("whatif", [25, 2, 1, 1]),
    ("wire", [25, 2, 1, 1]),
];

/// Uses that a crate may have above its budget, and must have below three quarters of it before the budget has to fall:
/// a commit that adds or removes a few lines need not change the table.
const SLACK: usize = 4;

fn budgets(files: &[File]) -> Vec<Finding> {
    compare(files, BUDGETS)
}

fn compare(files: &[File], budgets: &[(&str, [usize; 4])]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut crates: Vec<&str> = files.iter().filter_map(|file| crate_of(file)).collect();
    crates.sort_unstable();
    crates.dedup();
    for name in crates {
        let sources: Vec<&File> = files.iter().filter(|file| crate_of(file) == Some(name)).collect();
        let Some((_, budget)) = budgets.iter().find(|(krate, _)| *krate == name) else {
            findings.push(sources[0].finding(0, format!("`{name}` has no budget"), "a row with the goals in BUDGETS"));
            continue;
        };
        let words: Vec<Vec<Word>> = sources.iter().map(|file| words(&file.text)).collect();
        let lines: usize = sources.iter().map(|file| comments(&file.text).count()).sum();
        for (habit, budget) in HABITS.iter().zip(budget) {
            let uses: Vec<usize> = words.iter().map(|words| habit.uses(words)).collect();
            let (count, allowed) = (uses.iter().sum::<usize>(), (budget * lines).div_ceil(1000));
            let most = uses.iter().zip(&sources).max_by_key(|(uses, _)| **uses).map_or(sources[0], |(_, file)| file);
            let of = format!("{count} times \"{}\" in {lines} lines of comments of `{name}`", habit.name);
            if count > allowed + SLACK {
                findings.push(most.finding(0, format!("{of}, {allowed} allowed"), habit.instead));
            } else if *budget > habit.goal && count + SLACK < allowed * 3 / 4 {
                let smaller = format!("{of}: BUDGETS can have {} instead of {budget}", (count * 1000).div_ceil(lines));
                findings.push(most.finding(0, smaller, "the smaller figure"));
            }
        }
    }
    findings
}

/// Crate of a source file below `src/`.
fn crate_of(file: &File) -> Option<&str> {
    let (krate, _) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
    file.is_rust().then_some(krate)
}

/// Texts of the lines that are comments.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| Some(line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!'])))
}

/// Word in lower case, and true if punctuation follows it.
type Word = (String, bool);

fn words(text: &str) -> Vec<Word> {
    let word = |text: &str| {
        let bare = text.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        (bare, !text.ends_with(char::is_alphanumeric))
    };
    comments(text).flat_map(str::split_whitespace).map(word).collect()
}

impl Habit {
    fn uses(&self, words: &[Word]) -> usize {
        let count = |phrase: &str| {
            let wanted: Vec<&str> = phrase.split(' ').collect();
            let is_here = |here: &&[Word]| {
                here.iter().zip(&wanted).all(|((word, _), wanted)| word == wanted)
                    && here[..wanted.len() - 1].iter().all(|(_, is_followed)| !is_followed)
            };
            words.windows(wanted.len()).filter(is_here).count()
        };
        self.phrases.iter().map(|phrase| count(phrase)).sum()
    }
}

#[test]
fn words_of_comments_are_counted() {
    let uses = |text: &str| HABITS.each_ref().map(|habit| habit.uses(&words(text)));
    for (text, wanted) in [
        ("/// One, the ones (one).\n//! `one` \"oneself\" one's everyone\n", [4, 0, 0, 0]),
        ("// Sees what is, whatever.\nlet what = \"one\"; // what\n", [0, 1, 0, 0]),
        ("    /// That of a, those\n    /// of b; that. Of c\n", [0, 0, 2, 0]),
        ("// a list of its own, of their\n// own; of its, own\n", [0, 0, 0, 2]),
    ] {
        assert_eq!(uses(text), wanted, "{text}");
    }
}

#[test]
fn a_budget_leaves_slack_on_both_sides() {
    let found = |ones: usize| {
        let text = format!("{}{}", "// one\n".repeat(ones), "// two\n".repeat(1000 - ones));
        let [file] = &sample(&[("crates/acme/src/a.rs", &text)])[..] else { unreachable!("a file for each row") };
        let about = |finding: &Finding| finding.to_string().contains("\"one\"");
        compare(std::slice::from_ref(file), &[("acme", [40, 0, 0, 0])]).iter().filter(|finding| about(finding)).count()
    };
    assert_eq!([40, 44, 45].map(found), [0, 0, 1]);
    assert_eq!([26, 25].map(found), [0, 1]);
}
