//! A template, prepared for a route and rendered for each request or response.

use super::lookup::{Lookup, needs_head};
use super::parameters::Parameters;
use super::source::Source;
use super::variables;
use crate::filters::maps::Maps;
use evenkeel_config::plan::{Template, TemplatePart, Variable};
use std::rc::Rc;

/// Longest rendered value, in bytes. Half of the head that a client may send by default, and about the limit of a field
/// at common servers.
pub const VALUE_MAX: usize = 8 * 1024;

/// A template, prepared for the requests or responses of a route.
pub struct Value(Box<[Part]>);

enum Part {
    Text(Box<[u8]>),
    Variable(Variable),
    /// Parameter of the path, by its index.
    Parameter(Rc<Parameters>, usize),
    /// Value of a map.
    Map(Box<Lookup>),
    /// Value that was kept when the request came, by its index in [`Source::kept`].
    Kept(usize),
    /// Value known when the filter was built.
    Known(Box<[u8]>),
}

/// Reason why a value is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A variable has a control character, by which a client might end the field and begin another.
    Control,
    /// The value is longer than [`VALUE_MAX`].
    TooLong,
}

impl Value {
    /// Prepares a template for requests of a route that matches `path`.
    pub fn of_request(template: &Template, path: &Rc<Parameters>, maps: &Maps) -> Value {
        Value::prepare(template, |variable| part(variable, path, maps))
    }

    /// Prepares a template for responses of a route. Values that only the request has are kept when it comes, in the
    /// order of `kept`, to which missing variables are added.
    pub fn of_response(template: &Template, route: &str, kept: &mut Vec<Variable>, maps: &Maps) -> Value {
        let is_of_head = |variable: &Variable| match variable {
            Variable::Map(name) => needs_head(name, maps, is_of_head),
            variable => is_of_head(variable),
        };
        // The route's path is in the head, so that a map that is looked up later does not need it.
        let path = Rc::new(Parameters::of(std::iter::empty()));
        Value::prepare(template, |variable| match variable {
            Variable::Route => Part::Known(route.as_bytes().into()),
            variable if is_of_head(&variable) => {
                let at = kept.iter().position(|known| *known == variable).unwrap_or(kept.len());
                if at == kept.len() {
                    kept.push(variable);
                }
                Part::Kept(at)
            }
            variable => part(variable, &path, maps),
        })
    }

    /// Prepares a value that is just this variable of a request.
    pub fn of_variable(variable: Variable, path: &Rc<Parameters>, maps: &Maps) -> Value {
        Value([part(variable, path, maps)].into())
    }

    fn prepare(template: &Template, mut part: impl FnMut(Variable) -> Part) -> Value {
        let parts = template.parts().iter().map(|one| match one {
            TemplatePart::Text(text) => Part::Text(text.as_bytes().into()),
            TemplatePart::Variable(variable) => part(variable.clone()),
        });
        Value(parts.collect())
    }

    /// Appends the value. If it does not fit, nothing is appended.
    ///
    /// # Errors
    /// The reason why it does not fit.
    pub fn render(&self, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let start = out.len();
        for part in &self.0 {
            let at = out.len();
            match part {
                Part::Text(text) | Part::Known(text) => out.extend_from_slice(text),
                Part::Variable(variable) => variables::write(variable, from, out),
                Part::Parameter(path, index) => {
                    let value = from.request.and_then(|request| path.value(request.path(), *index));
                    out.extend_from_slice(value.unwrap_or_default().as_bytes());
                }
                Part::Map(lookup) => lookup.write(from, out),
                Part::Kept(index) => {
                    out.extend_from_slice(from.kept.get(*index).map_or(&[][..], Vec::as_slice));
                }
            }
            let unfit = if out.len() - start > VALUE_MAX {
                Unfit::TooLong
            } else if !matches!(part, Part::Text(_)) && out[at..].iter().any(|b| is_control(*b)) {
                Unfit::Control
            } else {
                continue;
            };
            out.truncate(start);
            return Err(unfit);
        }
        Ok(())
    }
}

/// Part for a variable of a request.
fn part(variable: Variable, path: &Rc<Parameters>, maps: &Maps) -> Part {
    // The path of the route has no such parameter, or there is no such map: errors of the configuration.
    let nothing = || Part::Text(Box::default());
    match variable {
        Variable::PathParameter(name) => {
            path.index(&name).map_or_else(nothing, |index| Part::Parameter(path.clone(), index))
        }
        Variable::Map(name) => Lookup::new(&name, path, maps).map_or_else(nothing, |map| Part::Map(map.into())),
        variable => Part::Variable(variable),
    }
}

/// True if a variable is read in the head of the request.
fn is_of_head(variable: &Variable) -> bool {
    matches!(
        variable,
        Variable::Host
            | Variable::Method
            | Variable::Path
            | Variable::Query
            | Variable::PathParameter(_)
            | Variable::Header(_)
            | Variable::Cookie(_)
            | Variable::QueryParameter(_)
    )
}

/// True for bytes that no value may have: line ends, NUL, and other control characters except for tabs.
fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') || byte == 0x7f
}
