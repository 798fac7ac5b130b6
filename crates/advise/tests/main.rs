//! Advice on whole configurations. Each patch is applied, and `check` accepts its result.

mod configurations;
mod truth;
