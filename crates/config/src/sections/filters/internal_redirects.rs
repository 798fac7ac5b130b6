//! `internal` and `internal_redirects` of a route: routes that no request of a client reaches, and the fields by which
//! endpoints have such a route answer.

use crate::form::Form;
use crate::table::{Absent, Key, Kind};

/// The key `internal` of routes.
pub(in crate::sections) const INTERNAL: Key = Key {
    name: "internal",
    kind: Kind::Bool,
    absent: Absent::Default("false"),
    help: "`true`: requests of clients never match the route. It answers for error pages with its name (`route` of \
        `error_pages`), and for responses with a path that it matches (`internal_redirects`), unless it has no `match`. Its \
        filters apply to both.",
    why: "",
};

/// The key `internal_redirects` of routes.
pub(in crate::sections) const INTERNAL_REDIRECTS: Key = Key {
    name: "internal_redirects",
    kind: Kind::OneOrList(&Kind::Text(Form::FieldName)),
    absent: Absent::Means("such fields are sent to the client as they are"),
    help: "Fields of responses whose value is a path, such as `\"X-Accel-Redirect\"` or `\"X-Sendfile\"`: the route with \
        `internal` that matches the path answers the request instead, as a GET or HEAD. The client gets its response \
        with `Set-Cookie`, `Content-Type`, `Content-Disposition`, `Cache-Control`, `Expires` and `Accept-Ranges` of the first \
        response, and without `X-Accel-*`. At most 10 in a row.",
    why: "An endpoint that decides about a download need not send it. Such a field of an endpoint that is not meant to \
        do so would open internal routes to it.",
};
