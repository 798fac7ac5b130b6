//! Error pages for clients that get no endpoint's response: the route's page, or else the listener's. Without a page,
//! the client gets a line of text.

use crate::resource::Resource;
use bytes::Bytes;
use evenkeel_config::plan::{self, Action, ERROR_PAGE_MAX, Respond};
use evenkeel_config::{Plan, Subject};
use evenkeel_runtime::Diagnostic;
use evenkeel_runtime::plane::reason;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A page for a range of statuses.
#[derive(Debug)]
pub struct ErrorPage {
    statuses: RangeInclusive<u16>,
    /// Value of `Content-Type`.
    pub media_type: Box<str>,
    pub body: Bytes,
}

#[derive(Debug, Default)]
pub struct ErrorPages {
    /// Pages by listener, pages for fewer statuses first.
    listeners: HashMap<Arc<str>, Vec<ErrorPage>>,
    /// Pages by index of their route, in the same order.
    routes: HashMap<usize, Vec<ErrorPage>>,
    /// Bodies of routes that answer with a file, by index of their route.
    bodies: HashMap<usize, Bytes>,
}

impl Resource for ErrorPages {
    /// Reads the files of a plan, each once.
    ///
    /// # Errors
    /// The files that cannot be read, or are larger than [`ERROR_PAGE_MAX`] bytes, each with the subject that names it.
    fn next(plan: &Plan, _: Option<&Arc<ErrorPages>>) -> Result<Arc<ErrorPages>, Vec<Diagnostic>> {
        let mut files = HashMap::new();
        let (mut pages, mut wrong) = (ErrorPages::default(), Vec::new());
        let mut note = |subject, of: (PathBuf, io::Error)| wrong.push(unreadable(subject, of));
        let listeners = plan.listeners.iter().enumerate();
        for (at, listener) in listeners.filter(|(_, listener)| !listener.error_pages.is_empty()) {
            match read_all(&listener.error_pages, &mut files) {
                Ok(read) => _ = pages.listeners.insert(listener.name.clone(), read),
                Err(error) => note(Subject::Listener(at), error),
            }
        }
        for (id, route) in plan.routes.iter().enumerate().filter(|(_, route)| !route.filters.error_pages.is_empty()) {
            match read_all(&route.filters.error_pages, &mut files) {
                Ok(read) => _ = pages.routes.insert(id, read),
                Err(error) => note(Subject::Route(id), error),
            }
        }
        for (id, route) in plan.routes.iter().enumerate() {
            if let Action::Respond(Respond { file: Some(file), .. }) = &route.action {
                match read(file) {
                    Ok(body) => _ = pages.bodies.insert(id, body),
                    Err(error) => note(Subject::Route(id), (file.clone(), error)),
                }
            }
        }
        if wrong.is_empty() { Ok(pages.into()) } else { Err(wrong) }
    }
}

impl ErrorPages {
    /// Body of a route that answers with a file.
    pub fn body_of(&self, route: usize) -> Option<&Bytes> {
        self.bodies.get(&route)
    }

    /// Finds the page for a status: pages of the route before pages of the listener, and the page for the fewest
    /// statuses first.
    pub fn find(&self, listener: &str, route: usize, status: u16) -> Option<&ErrorPage> {
        let owners = [self.routes.get(&route), self.listeners.get(listener)];
        owners.into_iter().flatten().find_map(|pages| pages.iter().find(|page| page.statuses.contains(&status)))
    }
}

fn read_all<'p>(
    pages: &'p [plan::ErrorPage],
    files: &mut HashMap<&'p Path, Bytes>,
) -> Result<Vec<ErrorPage>, (PathBuf, io::Error)> {
    let mut all = Vec::new();
    for page in pages {
        let body = match files.get(&*page.file) {
            Some(body) => body.clone(),
            None => read(&page.file).map_err(|error| (page.file.clone(), error))?,
        };
        files.insert(&page.file, body.clone());
        let of = |statuses: &RangeInclusive<u16>| ErrorPage {
            statuses: statuses.clone(),
            media_type: page.media_type.as_str().into(),
            body: body.clone(),
        };
        all.extend(page.statuses.iter().map(of));
    }
    all.sort_by_key(|page| page.statuses.len());
    Ok(all)
}

fn unreadable(of: Subject, (path, error): (PathBuf, io::Error)) -> Diagnostic {
    Diagnostic::Machine {
        problem: format!("error page {}: {}", path.display(), reason(&error)),
        help: Some("the user that runs evenkeel must be able to read it; see error_pages".to_string()),
        of: vec![of],
    }
}

fn read(path: &Path) -> io::Result<Bytes> {
    let mut page = Vec::new();
    File::open(path)?.take(ERROR_PAGE_MAX as u64 + 1).read_to_end(&mut page)?;
    match page.len() <= ERROR_PAGE_MAX {
        true => Ok(page.into()),
        false => Err(io::Error::other(format!("it is larger than the limit of {ERROR_PAGE_MAX} bytes"))),
    }
}
