//! `error_page`: pages for errors of NGINX itself, and of endpoints with `proxy_intercept_errors`.

use super::answer;
use super::program::Routes;
use super::rewrite::find;
use super::state::State;
use crate::ledger::Line;
use crate::model::{Action, Draft, Match, RouteKeys, Value};
use crate::nginx::lexer::Directive;
use crate::nginx::tree::Location;
use crate::nginx::variable::Scope;
use crate::nginx::world::{group, single};
use evenkeel_config::plan::ErrorPage;

const ADVICE: &str = "error_pages = [{ status = [502], file = \"FILE.html\" }] in the [[route]]";

/// Adds `error_pages` to a route with these levels.
pub(in crate::nginx) fn read<'d>(
    levels: &[&'d [Directive]],
    scope: &Scope,
    set: &mut RouteKeys,
    routes: &mut Routes<'_, 'd>,
) {
    let lines = group(levels, "error_page");
    if lines.is_empty() || routes.is_page {
        return;
    }
    let mut pages: Vec<Value> = Vec::new();
    let mut statuses: Vec<u64> = Vec::new();
    for directive in lines {
        let own: Vec<u64> = directive.from(1).iter().filter_map(|word| word.parse().ok()).collect();
        let new: Vec<u64> =
            own.iter().copied().filter(|status| (400..600).contains(status) && !statuses.contains(status)).collect();
        if new.is_empty() {
            let reason = "its statuses have a page already, or are not errors";
            routes.world.ledger.changes(directive.line, reason, ADVICE);
            continue;
        }
        match page(directive, &new, levels, scope, routes) {
            Ok(entries) => {
                routes.world.ledger.carried(directive.line);
                pages.extend(entries);
                statuses.extend(new);
            }
            Err(reason) => routes.world.ledger.changes(directive.line, reason, ADVICE),
        }
    }
    if pages.is_empty() {
        return;
    }
    set.put(key!("error_pages"), Value::List(pages));
    if let Some(directive) = single(levels, "proxy_intercept_errors") {
        routes.world.ledger.carried(directive.line);
    }
    if single(levels, "proxy_intercept_errors").is_some_and(|d| d.word(1) == "on") {
        set.put(key!("intercept"), Value::List(statuses.into_iter().map(Value::Int).collect()));
    }
}

/// The named location that answers instead of a `return` of a status: `error_page 418 = @name`.
pub(in crate::nginx) fn named<'t, 'd>(
    returned: &Directive,
    levels: &[&'d [Directive]],
    routes: &mut Routes<'t, 'd>,
) -> Option<&'t Location<'d>> {
    let is_bare = returned.words.len() == 2 && !routes.is_page;
    let status = returned.word(1).parse::<u64>().ok().filter(|status| is_bare && (400..600).contains(status))?;
    let of = |line: &&&Directive| line.from(1).iter().any(|word| word.parse() == Ok(status));
    let lines = group(levels, "error_page");
    let line = lines.iter().find(of)?;
    let name = line.words.last()?;
    let named = routes.tree.named.get(name.as_str()).filter(|_| line.words.iter().any(|word| word == "="))?;
    routes.world.ledger.carried(line.line);
    Some(named)
}

/// True if a route has pages for errors of files that are missing.
pub(in crate::nginx) fn is_of_files(set: &RouteKeys) -> bool {
    let has = |page: &Value| match page {
        Value::Table(page) => match page.get("status") {
            Some(Value::List(statuses)) => statuses.contains(&Value::Int(404)) || statuses.contains(&Value::Int(405)),
            _ => false,
        },
        _ => false,
    };
    matches!(set.get(key!("error_pages")), Some(Value::List(pages)) if pages.iter().any(has))
}

/// Entries of `error_pages` for a line.
fn page<'d>(
    directive: &Directive,
    statuses: &[u64],
    levels: &[&'d [Directive]],
    scope: &Scope,
    routes: &mut Routes<'_, 'd>,
) -> Result<Vec<Value>, String> {
    let target = directive.words.last().map_or("", String::as_str);
    let equal = directive.from(1).iter().find_map(|word| word.strip_prefix('='));
    let sent = match equal {
        Some("") => Some(None),
        Some(status) => Some(Some(status.parse::<u64>().map_err(|_| "its status is not a number")?)),
        None => None,
    };
    if target.contains('$') && !target.contains("://") {
        return Err("its target has a variable".into());
    }
    let list = |of: &[u64]| Value::List(of.iter().copied().map(Value::Int).collect());
    if target.contains("://") {
        let status = sent.flatten().filter(|status| (301..309).contains(status)).unwrap_or(302);
        let action = Action::Redirect(answer::redirect(target, status, scope, levels, routes.port)?);
        let mut fields = Draft::default();
        crate::nginx::filters::response_fields(levels, scope, &mut fields, routes.world);
        let name = routes.page(|routes| routes.push(Match::default(), action, fields, directive.line));
        let name = name.ok_or("it is not one route")?;
        return Ok(vec![Draft::<ErrorPage>::one(key!("status"), list(statuses)).with(key!("route"), name).into()]);
    }
    let tree = routes.tree;
    let location = match target.starts_with('@') {
        true => Some(tree.named.get(target).ok_or("no location has the name")?),
        false => find(&tree.top, target, true)?,
    };
    let Some(location) = location else {
        // NGINX looks for a file, and has none.
        if guards(levels.get(..2).unwrap_or_default()) {
            return Err("what the server refuses is refused for its page, too".into());
        }
        let fields = |levels: &[&'d [Directive]]| -> Vec<Line> {
            group(levels, "add_header").iter().map(|directive| directive.line).collect()
        };
        if statuses == [404] && fields(levels) == fields(levels.get(..2).unwrap_or_default()) {
            return Ok(Vec::new());
        }
        let missing = |routes: &mut Routes<'_, 'd>| {
            let mut fields = Draft::default();
            let server = levels.get(..2).unwrap_or_default();
            crate::nginx::filters::response_fields(server, scope, &mut fields, routes.world);
            routes.push(Match::default(), Action::respond(404), fields, directive.line);
        };
        let name = routes.page(missing).ok_or("it is not one route")?;
        return Ok(vec![Draft::<ErrorPage>::one(key!("status"), list(statuses)).with(key!("route"), name).into()]);
    };
    if let Some(root) =
        single(&location.levels, "root").filter(|_| !crate::nginx::tree::passes(location) && !target.starts_with('@'))
    {
        return file(directive, root, target, sent, statuses, location, routes);
    }
    let own = location.directive;
    let is_internal = own.inner().iter().any(|d| d.name() == "internal");
    let is_refused = guards(&location.levels) || answer::refuses(own) && !is_internal;
    if is_refused {
        return Err("the location with its page may refuse requests, too".into());
    }
    let is_named = target.starts_with('@');
    if !is_named && levels.get(1).is_some_and(|server| returns(server)) {
        return Err("the rules of the server apply to its page, too, and one returns".into());
    }
    let mut state = State::of_page(scope.clone());
    if !is_named {
        state.scope.uri = Some(Some(target.to_string()));
    }
    let name = routes.page(|routes| routes.location(location, state));
    let name = name.ok_or("the location with its page is not one route")?;
    // A redirect keeps its status, and names the path of the request.
    let redirects = routes.pages.iter().any(|page| page.name == name && matches!(page.action, Action::Redirect(_)));
    if redirects && !is_named {
        return Err("its page is a redirect".into());
    }
    if !is_named && own.inner().iter().any(|d| d.name() == "proxy_pass" && d.word(1).contains("$request_uri")) {
        return Err("its page is asked for by the path of the request".into());
    }
    if crate::nginx::tree::passes(location) {
        let todo = "nothing, unless the page depends on the request: retry of the [[route]] asks another endpoint";
        routes.world.ledger.changes(
            directive.line,
            "the page is asked for by GET, without the body of the request",
            todo,
        );
    }
    let entry = |of: &[u64]| {
        let entry: Draft<ErrorPage> = Draft::one(key!("status"), list(of)).with(key!("route"), name.as_str());
        if is_named { entry } else { entry.with(key!("path"), target) }
    };
    // An error of the page's own location is the one that is sent.
    let fails = |action: &Action| match action {
        Action::Respond(response) if response.entries().iter().len() == 1 => {
            matches!(response.get(key!("status")), Some(Value::Int(status)) if *status >= 400)
        }
        _ => false,
    };
    let fails = routes.pages.iter().any(|page| page.name == name && fails(&page.action));
    Ok(match (sent, is_named) {
        _ if fails && is_named => vec![entry(statuses).into()],
        _ if redirects => vec![entry(statuses).into()],
        (Some(Some(status)), _) => vec![entry(statuses).with(key!("send_status"), status).into()],
        (Some(None), true) | (None, false) => vec![entry(statuses).into()],
        (Some(None), false) => return Err("the status of its page cannot be kept together with its path".into()),
        // A route without a path sends its own status.
        (None, true) => {
            statuses.iter().map(|status| entry(&[*status]).with(key!("send_status"), *status).into()).collect()
        }
    })
}

/// True if rules of the server itself end some requests.
fn returns(server: &[Directive]) -> bool {
    server.iter().any(|d| d.name() == "return" || d.name() == "if" && d.inner().iter().any(|d| d.name() == "return"))
}

/// True if some clients are refused at these levels.
fn guards(levels: &[&[Directive]]) -> bool {
    ["deny", "auth_basic", "auth_request"].iter().any(|name| group(levels, name).iter().any(|d| d.word(1) != "off"))
}

/// A page that a location has on the disk.
fn file<'d>(
    directive: &Directive,
    root: &Directive,
    target: &str,
    sent: Option<Option<u64>>,
    statuses: &[u64],
    location: &Location<'d>,
    routes: &mut Routes<'_, 'd>,
) -> Result<Vec<Value>, String> {
    let file = format!("{}{target}", root.word(1).trim_end_matches('/'));
    let statuses_of = Value::List(statuses.iter().copied().map(Value::Int).collect());
    let mut page: Draft<ErrorPage> = Draft::one(key!("status"), statuses_of).with(key!("file"), file);
    if let Some(status) = sent {
        page.put(key!("send_status"), status.unwrap_or(200));
    }
    let ledger = &mut routes.world.ledger;
    ledger.changes(directive.line, "the file is read at the start, and has to be there", "run `evenkeel check`");
    ledger.carried(location.directive.line);
    for inner in location.directive.inner() {
        ledger.dropped_instead(inner.line, "the page is named by its file");
    }
    ledger.dropped(
        directive.line,
        "the page is for evenkeel's own answers; errors of endpoints pass as they are, as in NGINX without proxy_intercept_errors",
    );
    Ok(vec![page.into()])
}
