//! Answers about other ways to balance the traffic of a log. Read the modules in this order:
//!
//! 1. [`record`]: the requests of a log; [`traffic`]: the requests of a pool.
//! 2. [`doubts`]: searches for a [`doubt`], by which a log cannot answer.
//! 3. [`policy`]: algorithms; [`model`]: models that reproduce the log under the algorithm that was in force.
//! 4. [`question`]: other policies and conditions; [`worlds`]: systems that they run in; [`answer`]: the results.
//!    [`warmth`]: the warm-up of endpoints that joined.
//! 5. [`explored`]: explored picks of the log beside the model.
//! 6. [`verdict`]: the policy to choose.
//! 7. [`findings`]: all of it for a pool; [`text`], [`json`](mod@json) and [`report`]: as text, JSON and
//!    HTML.
#![forbid(unsafe_code)]

// Order: report, json, text, findings, verdict, explored, answer, worlds, question, model, policy, doubts, warmth,
// traffic, record, doubt
pub mod answer;
pub mod doubt;
pub mod doubts;
pub mod explored;
pub mod findings;
pub mod json;
pub mod model;
pub mod policy;
pub mod question;
pub mod record;
pub mod report;
pub mod text;
pub mod traffic;
pub mod verdict;
pub mod warmth;
pub mod worlds;

pub use doubt::Doubt;
pub use findings::{Asked, Findings, find};
