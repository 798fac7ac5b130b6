//! Advice on the configuration: changes in order of effect, each with its evidence, its command and its patch.

use crate::api::running::Answer;
use crate::dashboard::page::{Asked, Content, Page};
use crate::dashboard::shown::{milliseconds, since};
use evenkeel_view::advice::{Advice, Advised, Computed, Verdict};
use evenkeel_view::words::ago;
use maud::{Markup, html};

/// The page follows a computation until the advice is there.
pub static PAGE: Page = Page { path: "/ui/advice", name: "Advice", content, is_live: true };

fn content(asked: Asked) -> Content {
    Box::pin(async move {
        let answer = asked.process.advice(asked.caller.may_change)?;
        let status = asked.process.status();
        Ok(html! {
            h1 { "Advice" }
            p.dim { "What to change in the configuration, in order of effect, as " code { "evenkeel advise" }
                " finds it. Nothing is changed here." }
            @match answer {
                Answer::Computing(computing) => {
                    p.nothing { "The advice is being computed, for " (ago(status.now_ms.saturating_sub(computing.since_ms)))
                        ". This page shows it when it is done." }
                }
                Answer::Made(advised) => {
                    @if status.config.differs { p.warn { "The running configuration differs from " code { (advised.config) }
                        ", which the commands read." } }
                    @else if status.config.file.is_none() { p.warn { "The configuration is not in a file. Save the output of "
                        code { "evenkeel config show" } " to " code { (advised.config) } " before the commands and patches below." } }
                    (all(&advised, asked.caller.may_change))
                }
            }
        })
    })
}

/// All advice. `may`: true if patches are whole.
fn all(advised: &Advised, may: bool) -> Markup {
    let (changes, left) = advised.parts();
    let has_patch = changes.iter().any(|advice| advice.patch.is_some());
    html! {
        @if let Some(computed) = &advised.computed { (origin(computed)) }
        @if changes.is_empty() { p.nothing { "Leave it: nothing here would be better than noise." } }
        @if has_patch && !may { p.dim { "Patches have only the lines that change. Sign in to see them with the lines around." } }
        @for (at, advice) in changes.iter().enumerate() { (change(at + 1, advice)) }
        @if !left.is_empty() {
            h2 { "Leave it" }
            div.left { @for advice in &left { (leave(advice)) } }
        }
        @if !advised.unfinished.is_empty() { (unfinished(advised)) }
    }
}

fn origin(computed: &Computed) -> Markup {
    html! { p.process {
        span { "computed " (ago(computed.age_ms)) " ago" }
        span { "at " time { (since(computed.at_ms)) } }
        span { "in " (milliseconds(computed.took_ms as f64)) }
        span { "generation " (computed.generation) }
    } }
}

fn change(number: usize, advice: &Advice) -> Markup {
    let (repeat, patch) = (format!("repeat-{number}"), format!("patch-{number}"));
    html! { article.advice {
        h2 { (number) ". " (advice.subject) ": " (advice.says) }
        p class=(tone(advice.verdict)) {
            @match &advice.effect {
                Some(effect) => { (advice.verdict.words()) ": " (effect.text()) }
                None if advice.verdict == Verdict::Danger => { (advice.verdict.words()) }
                None => { (advice.kind) }
            }
        }
        @if !advice.evidence.is_empty() { ul { @for evidence in &advice.evidence { li { (evidence) } } } }
        @if let Some(command) = &advice.repeat { (copied("Repeat", &repeat, html! { (command) })) }
        @if let Some(diff) = &advice.patch { (copied("Patch", &patch, lines(diff))) }
    } }
}

/// Class of a verdict, which gives it colour.
fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Danger => "bad",
        Verdict::Change => "good",
        Verdict::Depends => "warn",
        Verdict::Leave => "dim",
    }
}

/// Text with a button that copies it.
fn copied(name: &str, id: &str, text: Markup) -> Markup {
    let label = id.replace('-', " ");
    html! {
        p.copied { span { (name) } " " button type="button" data-copy=(id) aria-label={ "Copy " (label) } { "Copy" } }
        pre.text id=(id) tabindex="0" role="region" aria-label=(label) { (text) }
    }
}

/// Lines of a difference, with colours for those that change.
fn lines(diff: &str) -> Markup {
    let class = |line: &str| match line.as_bytes() {
        [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] | [b'@', ..] => Some("dim"),
        [b'-', ..] => Some("bad"),
        [b'+', ..] => Some("good"),
        _ => None,
    };
    html! { @for line in diff.split_inclusive('\n') {
        @match class(line) { Some(class) => { span class=(class) { (line) } } None => { (line) } }
    } }
}

fn leave(advice: &Advice) -> Markup {
    let summary = html! { (advice.subject) ", " (advice.kind) ": " (advice.says) };
    html! {
        @if advice.evidence.is_empty() { p { (summary) } }
        @else { details { summary { (summary) } ul { @for evidence in &advice.evidence { li { (evidence) } } } } }
    }
}

/// Pools that are named, of those that had no time.
const NAMED: usize = 20;

fn unfinished(advised: &Advised) -> Markup {
    let (all, named) = (advised.unfinished.len(), advised.unfinished.iter().take(NAMED));
    html! {
        h2 { "Not computed" }
        p { "The time was not sufficient for trials of " (all) " pools: "
            (named.map(String::as_str).collect::<Vec<_>>().join(", ")) @if all > NAMED { ", and others" }
            ". The command takes the time that it needs:" }
        (copied("Command", "command", html! { "evenkeel advise -c " (advised.config) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_view::advice::{Effect, Figure};

    fn advice(verdict: Verdict, says: &str) -> Advice {
        Advice {
            kind: "algorithm".into(),
            subject: "pool \"a<b\"".into(),
            verdict,
            says: says.into(),
            effect: None,
            evidence: Vec::new(),
            repeat: None,
            patch: None,
        }
    }

    fn shown(advice: Vec<Advice>) -> String {
        let computed = Some(Computed { at_ms: 1_700_000_000_000, age_ms: 120_000, took_ms: 1_500, generation: 7 });
        all(&Advised { config: "a.toml".into(), advice, unfinished: Vec::new(), computed }, false).into_string()
    }

    #[test]
    fn a_change_has_everything_that_the_command_prints() {
        let effect = Effect { figure: Figure::Latency, change: [-0.5, -0.4, -0.3], at: "70 % load".into() };
        let (evidence, repeat) = (vec!["a fact".to_owned()], Some("evenkeel advise -c a.toml".to_owned()));
        let patch = Some("--- a.toml\n+++ a.toml\n@@ -1,1 +1,1 @@\n-x = 1\n+x = 2\n".to_owned());
        let one = Advice { effect: Some(effect), evidence, repeat, patch, ..advice(Verdict::Change, "set x = 2") };
        let page = shown(vec![one, advice(Verdict::Leave, "leave y")]);
        for part in [
            "<h2>1. pool &quot;a&lt;b&quot;: set x = 2</h2>",
            "effect: p99 -40 % [-50, -30], 70 % load",
            "<li>a fact</li>",
            "data-copy=\"repeat-1\"",
            "<span class=\"bad\">-x = 1\n</span><span class=\"good\">+x = 2\n</span>",
            "computed 2m00s ago",
            "22:13:20 UTC",
            "generation 7",
            "Sign in to see them",
            "<p>pool &quot;a&lt;b&quot;, algorithm: leave y</p>",
        ] {
            assert!(page.contains(part), "no {part} in {page}");
        }
    }

    #[test]
    fn nothing_to_change_is_said_in_words() {
        let page = shown(vec![advice(Verdict::Leave, "leave y")]);
        assert!(page.contains("Leave it: nothing here would be better than noise."), "{page}");
        assert!(!page.contains("Sign in"), "{page}");
    }

    #[test]
    fn pools_without_time_are_named() {
        let unfinished = (0..30).map(|n| format!("p{n}")).collect();
        let advised = Advised { config: "a.toml".into(), unfinished, ..Advised::default() };
        let page = all(&advised, true).into_string();
        assert!(page.contains("trials of 30 pools: p0, p1") && page.contains("p19, and others"), "{page}");
        assert!(page.contains("evenkeel advise -c a.toml"), "{page}");
    }
}
