//! Internal redirects of a request: the copy of it that another route answers, and the changes to the response of that
//! route. Only requests of routes and listeners that may redirect are copied.

use crate::body::internal_redirect::Changes;
use crate::side::request::SideRequest;
use evenkeel_wire::head::Fields;
use std::cell::RefCell;

/// Most internal redirects of a request, pages of errors not counted.
pub const REDIRECTS_MAX: u8 = 10;

/// Internal redirects of a request, so far.
pub struct Redirects {
    /// The request as the filters of its listener left it.
    pub asked: SideRequest,
    /// Index of the route that the client's request has matched, once another route answers.
    pub first: Option<usize>,
    /// Number of paths of endpoints that were followed.
    pub followed: u8,
    /// True once a route answers with the page of an error: no other page is from a route.
    pub is_page: bool,
    /// Changes to the response of the route that answers now.
    pub changes: RefCell<Changes>,
}

impl Redirects {
    /// Keeps a request, before any redirect.
    pub fn of(asked: SideRequest) -> Redirects {
        Redirects { asked, first: None, followed: 0, is_page: false, changes: RefCell::default() }
    }

    /// Forgets the changes, as the route has failed. Returns the status of the error whose page was to be sent.
    pub fn fail(&self) -> Option<u16> {
        self.first?;
        self.changes.take().status.filter(|status| *status >= 400)
    }
}

/// Drops the fields by which an endpoint directs a server in front of it.
pub fn leave_out_accel(fields: &mut Fields<'_, '_>) {
    const PREFIX: &[u8] = b"x-accel-";
    for field in &mut *fields.rows {
        let name = field.name(fields.bytes);
        field.dropped |= name.len() > PREFIX.len() && name[..PREFIX.len()].eq_ignore_ascii_case(PREFIX);
    }
}
