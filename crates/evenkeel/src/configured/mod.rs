//! What is asked of the configuration, and what is to run then? A file read again, a text in its place, or what ran before.
//!
//! 1. [`texts`]: what files said; [`source`]: those of this process; [`watch`]: whether one was touched.
//! 2. [`revisions`]: the configurations that were in use.
//! 3. [`reload`]: how one takes the place of another.

pub mod reload;
pub mod revisions;
pub mod source;
pub mod texts;
pub mod watch;

use evenkeel_admin::api::problem::Problem;
use evenkeel_config::{Diagnostic, Outcome, changes, render_text};
use evenkeel_view::config;
use evenkeel_view::words::unix_ms;
use revisions::{Revision, Revisions};
use source::Source;
use std::sync::Arc;
use std::time::SystemTime;
use texts::Texts;

/// Where the configuration comes from, and those that were.
#[derive(Debug)]
pub struct Configured {
    /// The file, or what was typed.
    pub source: Source,
    /// What was in use.
    pub revisions: Revisions,
}

/// What is to become a revision.
pub struct Draft {
    how: &'static str,
    texts: Arc<Texts>,
}

impl Configured {
    /// One that starts. `handed`: what the process before had applied, if that is not what the source says.
    pub fn new(source: Source, handed: Option<Revision>) -> Configured {
        let since_ms = unix_ms(SystemTime::now());
        let (how, by) = ("start".to_owned(), "the command line".to_owned());
        let texts = Arc::new(source.texts().clone());
        let first = match handed {
            Some(handed) => Revision { generation: 0, ..handed },
            None => Revision { generation: 0, since_ms, how, by, changes: Vec::new(), differs: false, texts },
        };
        let revisions = Revisions::new(source.file().map(Into::into), first);
        Configured { source, revisions }
    }

    /// The file, read again.
    ///
    /// # Errors
    /// There is none.
    pub fn reload(&mut self) -> Result<(Outcome, Draft), Problem> {
        if self.source.file().is_none() {
            return Err(Problem::refused("the process was started without a file: there is nothing to read again"));
        }
        let outcome = self.source.read();
        Ok((outcome, Draft { how: "reload", texts: Arc::new(self.source.texts().clone()) }))
    }

    /// This text in the place of the file.
    pub fn apply(&self, text: &str) -> (Outcome, Draft) {
        let (outcome, texts) = self.source.with(text);
        (outcome, Draft { how: "apply", texts: Arc::new(texts) })
    }

    /// What ran before, or at this generation. `running`: the one that runs.
    ///
    /// # Errors
    /// It is not kept.
    pub fn rollback(&self, to: Option<u64>, running: u64) -> Result<(Outcome, Draft), Problem> {
        let texts = self.kept(to, running)?;
        Ok((texts.load(), Draft { how: "rollback", texts }))
    }

    fn kept(&self, generation: Option<u64>, running: u64) -> Result<Arc<Texts>, Problem> {
        let kept = || self.revisions.all().iter().map(|one| one.generation.to_string()).collect::<Vec<_>>().join(", ");
        let found = match generation {
            Some(generation) if generation == running => {
                return Err(Problem::refused(format!("generation {generation} is the one that runs")));
            }
            Some(generation) => self.revisions.get(generation).ok_or_else(|| {
                Problem::not_found(format!("no generation {generation} is kept; there are: {}", kept()))
            }),
            None => {
                self.revisions.before().ok_or_else(|| Problem::refused("there is no configuration before this one"))
            }
        };
        found.map(|revision| revision.texts)
    }

    /// What a text would change, if it is right.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn check(&self, text: &str, generation: u64) -> Result<config::Outcome, Problem> {
        let (Outcome { plan, diagnostics }, _) = self.source.with(text);
        let said = render_text(&diagnostics, false);
        let plan = plan.ok_or_else(|| Problem::wrong_config(said.clone(), shown(&diagnostics)))?;
        // Read again: what runs has endpoints, too, that were found.
        let now = self.revisions.latest().texts.load().plan;
        let changes = now.map(|now| changes(&now, &plan)).unwrap_or_default();
        let diagnostics = shown(&diagnostics);
        Ok(config::Outcome {
            result: "checked".into(),
            generation,
            text: said,
            changes,
            diagnostics,
            ..Default::default()
        })
    }

    /// Has the file say what runs.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn save(&mut self, generation: u64) -> Result<config::Outcome, Problem> {
        self.source.write(&self.revisions.latest().texts).map_err(Problem::refused)?;
        self.revisions.saved();
        let text = format!("{} says what runs\n", self.source.file().unwrap_or("it".as_ref()).display());
        Ok(config::Outcome { result: "saved".into(), generation, text, ..Default::default() })
    }

    /// What was proposed runs.
    pub fn applied(&self, Draft { how, texts }: Draft, generation: u64, by: &str, changes: &[String]) {
        self.revisions.push(Revision {
            generation,
            since_ms: unix_ms(SystemTime::now()),
            how: how.to_owned(),
            by: by.to_owned(),
            changes: changes.to_vec(),
            differs: texts.files != self.source.texts().files,
            texts,
        });
    }
}

/// As the API has them.
pub fn shown(diagnostics: &[Diagnostic]) -> Vec<config::Diagnostic> {
    let one = |diagnostic: &Diagnostic| {
        let start = diagnostic.at.range.as_ref().map(|range| range.start);
        config::Diagnostic {
            code: diagnostic.code.as_str().to_owned(),
            severity: diagnostic.severity().as_str().to_owned(),
            message: diagnostic.message.clone(),
            file: diagnostic.at.file.clone(),
            line: start.map(|start| start.line),
            col: start.map(|start| start.col),
            help: diagnostic.help.clone(),
        }
    };
    diagnostics.iter().map(one).collect()
}
