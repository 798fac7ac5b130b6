//! Forms of parts of requests: paths and their patterns, hosts and fields for endpoints, values with
//! variables, and tokens with their keys.

// Order: key_source, path_parts, path, pieces, captures, expression_set, regex, expressions, expression, send_host, template,
// function, variable, foreign_variables, token_field, field_name
pub(super) mod captures;
mod expression;
mod expression_set;
mod expressions;
pub(super) mod field_name;
pub(super) mod foreign_variables;
pub(super) mod function;
pub(super) mod key_source;
pub(super) mod path;
pub(super) mod path_parts;
pub(super) mod pieces;
pub(super) mod regex;
pub(super) mod send_host;
pub(super) mod template;
pub(super) mod token_field;
pub(super) mod variable;

pub use expression::{Expression, Extent};
pub use expression_set::Expressions;
