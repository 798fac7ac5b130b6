//! Changes of fields of requests and responses. See [`Changes`].

use crate::node::Node;
use evenkeel_config::plan::{RequestHeaders, ResponseHeaders, Template, Variable, add_field};
use std::sync::Arc;

/// Changes of a route, its virtual host and its route configuration, in the order in which Envoy applies them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    pub request: RequestHeaders,
    pub response: ResponseHeaders,
}

/// Values that become a variable of the plan.
const VARIABLES: [(&str, Variable); 6] = [
    ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", Variable::ClientIp),
    ("%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", Variable::ClientIp),
    ("%REQ(:METHOD)%", Variable::Method),
    ("%REQ(:AUTHORITY)%", Variable::Host),
    ("%REQ(:PATH)%", Variable::RequestUri),
    ("%DOWNSTREAM_TLS_VERSION%", Variable::TlsVersion),
];

/// Field names, each with the value that is set or added.
type Values = Vec<(Arc<str>, Template)>;

/// Field names, each with the values that are added.
type Added = Vec<(Arc<str>, Vec<Template>)>;

impl Changes {
    /// Reads the changes of a route, a virtual host or a route configuration.
    ///
    /// # Errors
    /// The change that a route of a plan cannot have.
    pub fn of(node: &Node<'_>) -> Result<Changes, String> {
        let mut changes = Changes::default();
        let Changes { request, response } = &mut changes;
        request.remove = node.texts("request_headers_to_remove").map(Arc::from).collect();
        for option in node.nodes("request_headers_to_add") {
            let read = add(option, &mut request.set, &mut request.add);
            if option.part(read).map_err(|why| format!("request_headers_to_add: {why}"))?.is_none() {
                request.remove.extend(withheld(option));
            }
        }
        for option in node.nodes("response_headers_to_add") {
            let read = add(option, &mut response.set, &mut response.add);
            option.part(read).map_err(|why| format!("response_headers_to_add: {why}"))?;
        }
        response.remove = node.texts("response_headers_to_remove").map(Arc::from).collect();
        Ok(changes)
    }

    /// Adds the changes that are applied after these.
    pub fn then(&self, later: &Changes) -> Changes {
        let mut all = self.clone();
        let is_gone = |name: &Arc<str>, removed: &[Arc<str>], set: &Values| {
            let names = removed.iter().chain(set.iter().map(|(name, _)| name));
            names.into_iter().any(|other| other.eq_ignore_ascii_case(name))
        };
        // A field that is removed or overwritten later is not added before.
        all.request.set.retain(|(name, _)| !is_gone(name, &later.request.remove, &Vec::new()));
        all.request.add.retain(|(name, _)| !is_gone(name, &later.request.remove, &later.request.set));
        all.response.set.retain(|(name, _)| !is_gone(name, &later.response.remove, &Vec::new()));
        all.response.add.retain(|(name, _)| !is_gone(name, &later.response.remove, &later.response.set));
        for (ours, theirs) in [(&mut all.request.set, &later.request.set), (&mut all.response.set, &later.response.set)]
        {
            theirs.iter().for_each(|(name, value)| replace(ours, name, value));
        }
        for (ours, theirs) in [(&mut all.request.add, &later.request.add), (&mut all.response.add, &later.response.add)]
        {
            for (name, values) in theirs {
                values.iter().for_each(|value| add_field(ours, name, value.clone()));
            }
        }
        let more = |ours: &mut Vec<Arc<str>>, theirs: &[Arc<str>]| {
            let new: Vec<_> = theirs.iter().filter(|name| !ours.contains(name)).cloned().collect();
            ours.extend(new);
        };
        more(&mut all.request.remove, &later.request.remove);
        more(&mut all.response.remove, &later.response.remove);
        all
    }
}

fn replace(ours: &mut Values, name: &Arc<str>, value: &Template) {
    match ours.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        Some((_, before)) => *before = value.clone(),
        None => ours.push((name.clone(), value.clone())),
    }
}

fn put(ours: &mut Values, name: &Arc<str>, value: &Template) -> Result<(), String> {
    match ours.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
        Some((_, before)) if before == value => Ok(()),
        Some(_) => Err(format!("the field {name:?} is set twice")),
        None => {
            ours.push((name.clone(), value.clone()));
            Ok(())
        }
    }
}

/// Fields of requests that evenkeel always sets itself.
const OWN: [&str; 4] = ["host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"];

/// Name of a field that is removed, as it would be overwritten and its new value has no counterpart: the value of a client
/// must not pass for it.
fn withheld(option: &Node<'_>) -> Option<Arc<str>> {
    let overwrites = option.number("append_action") >= 2 || option.wrapped("append") == Some(0);
    let name = option.node("header").and_then(|header| header.text("key")).filter(|_| overwrites)?;
    let is_own = OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
    if name.is_empty() || name.starts_with(':') || is_own {
        return None;
    }
    option.differs(format!("{name:?} of a client is removed"));
    Some(name.into())
}

fn add(option: &Node<'_>, set: &mut Values, added: &mut Added) -> Result<(), String> {
    let header = option.node("header").ok_or("an entry has no header")?;
    let (name, value) = (header.text("key").unwrap_or_default(), header.text("value").unwrap_or_default());
    let appends = option.wrapped("append");
    let overwrites = match option.number("append_action") {
        0 => appends == Some(0),
        2 => true,
        _ => return Err(format!("{name:?}: append_action {} has no counterpart", option.word("append_action"))),
    };
    let template = template(value).ok_or_else(|| format!("{name:?}: {value:?} has no counterpart"))?;
    if overwrites {
        added.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        return put(set, &name.into(), &template);
    }
    add_field(added, &name.into(), template);
    Ok(())
}

/// Value as a template; `None` if it has commands that are not known.
fn template(value: &str) -> Option<Template> {
    if let Some((_, variable)) = VARIABLES.iter().find(|(text, _)| *text == value) {
        return Template::of_variable(variable);
    }
    let plain = value.replace("%%", "");
    (!plain.contains('%')).then(|| Template::literal(&value.replace("%%", "%")))
}

/// Template for a path that stays as it is.
pub fn path(text: &str) -> Template {
    Template::literal(text)
}
