//! A template, prepared for a route and rendered for each request or response.

use super::lookup::{Lookup, needs_head};
use super::maps::Maps;
use super::parameters::{Parameter, Parameters};
use super::source::Source;
use super::variables;
use evenkeel_config::plan::{Captures, Function, Template, TemplatePart, TooLong, Variable};
use std::rc::Rc;
use std::sync::Arc;

/// Longest rendered value, in bytes. Half of the head that a client may send by default, and about the limit of a field
/// at common servers.
pub const VALUE_MAX: usize = 8 * 1024;

/// Mark that is kept for the response instead of a value of the request that did not fit.
pub const UNFIT: &[u8] = b"\0";

/// A template, prepared for the requests or responses of a route.
pub struct Value(Box<[(Part, Arc<[Function]>)]>);

enum Part {
    Text(Box<[u8]>),
    Variable(Variable),
    Parameter(Rc<Parameters>, Parameter),
    /// Group of the expression that found the place of the value, by its number.
    Group(usize),
    /// Value that a map has for its input.
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
        Value::prepare(template, |variable| of_request(variable, path, maps))
    }

    /// Prepares a template for the parts of a path that an expression finds. Its groups hide parameters of the route.
    pub fn of_groups(template: &Template, expression: &Captures, path: &Rc<Parameters>, maps: &Maps) -> Value {
        Value::prepare(template, |variable| match &variable {
            Variable::PathParameter(name) => match expression.group(name) {
                Some(number) => Part::Group(number),
                None => of_request(variable, path, maps),
            },
            _ => of_request(variable, path, maps),
        })
    }

    /// Prepares a template for responses of a route. Values that only the request has are kept when it comes, in the
    /// order of `kept`, to which missing variables are added.
    pub fn of_response(template: &Template, route: &str, kept: &mut Vec<Variable>, maps: &Maps) -> Value {
        let is_of_head = |variable: &Variable| match variable {
            Variable::Map(name) => needs_head(name, maps, is_of_head),
            variable => is_of_head(variable),
        };
        // The route's path is in the head, so that a map that is looked up later does not need it.
        let path = Rc::<Parameters>::default();
        Value::prepare(template, |variable| match variable {
            Variable::Route => Part::Known(route.as_bytes().into()),
            variable if is_of_head(&variable) => {
                let at = kept.iter().position(|known| *known == variable).unwrap_or(kept.len());
                if at == kept.len() {
                    kept.push(variable);
                }
                Part::Kept(at)
            }
            variable => of_request(variable, &path, maps),
        })
    }

    /// Prepares a value that is just this variable of a request.
    pub fn of_variable(variable: Variable, path: &Rc<Parameters>, maps: &Maps) -> Value {
        Value([(of_request(variable, path, maps), [].into())].into())
    }

    fn prepare(template: &Template, mut part: impl FnMut(Variable) -> Part) -> Value {
        let parts = template.parts().iter().map(|one| match one {
            TemplatePart::Text(text) => (Part::Text(text.as_bytes().into()), [].into()),
            TemplatePart::Variable(variable, functions) => (part(variable.clone()), functions.clone()),
        });
        Value(parts.collect())
    }

    /// Appends the value. If it does not fit, nothing is appended.
    ///
    /// # Errors
    /// The reason why it does not fit.
    pub fn render(&self, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
        let start = out.len();
        for (part, functions) in &self.0 {
            let at = out.len();
            part.write(from, out);
            // Before a function could hide it.
            if matches!(part, Part::Kept(_)) && out[at..] == *UNFIT {
                out.truncate(start);
                return Err(Unfit::Control);
            }
            let mut is_longer = false;
            for function in &**functions {
                is_longer |= function.apply(out, at, VALUE_MAX) == Err(TooLong);
            }
            let unfit = if is_longer || out.len() - start > VALUE_MAX {
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

impl Part {
    /// Appends the value of the part.
    fn write(&self, from: &Source<'_, '_, '_, '_>, out: &mut Vec<u8>) {
        match self {
            Part::Text(text) | Part::Known(text) => out.extend_from_slice(text),
            Part::Variable(variable) => variables::write(variable, from, out),
            Part::Parameter(all, one) => {
                out.extend_from_slice(all.value(from.path, one).unwrap_or_default().as_bytes())
            }
            Part::Group(number) => {
                let found = from.groups.get(*number).and_then(|place| from.path.get(place));
                out.extend_from_slice(found.unwrap_or_default().as_bytes());
            }
            Part::Map(lookup) => lookup.write(from, out),
            Part::Kept(index) => out.extend_from_slice(from.kept.get(*index).map_or(&[][..], Vec::as_slice)),
        }
    }
}

/// Part for a variable of a request.
fn of_request(variable: Variable, path: &Rc<Parameters>, maps: &Maps) -> Part {
    let name = match &variable {
        // Without a map of this name, which is an error of the configuration, it is empty.
        Variable::Map(name) => {
            return Lookup::new(name, path, maps).map_or(Part::Text(Box::default()), |map| Part::Map(map.into()));
        }
        Variable::PathParameter(name) => name,
        // Unless a parameter has the name.
        Variable::PathFirst => "first",
        Variable::PathLast => "last",
        _ => return Part::Variable(variable),
    };
    match (path.find(name), &variable) {
        (Some(parameter), _) => Part::Parameter(path.clone(), parameter),
        // The path of the route has no such parameter, which is an error of the configuration.
        (None, Variable::PathParameter(_)) => Part::Text(Box::default()),
        (None, _) => Part::Variable(variable),
    }
}

/// True if a variable is read in the head of the request.
fn is_of_head(variable: &Variable) -> bool {
    matches!(
        variable,
        Variable::Host
            | Variable::Method
            | Variable::Path
            | Variable::PathFirst
            | Variable::PathLast
            | Variable::Query
            | Variable::RequestUri
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
