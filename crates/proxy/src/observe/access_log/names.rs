//! Names of listeners, routes, pools and endpoints. Pairs that many lines share are encoded for the first line, and
//! cached with the route or the endpoint.

use super::quoted::quoted;
use std::borrow::Cow;
use std::cell::OnceCell;

/// Pair of names shared by many lines, encoded once.
#[derive(Debug, Default)]
pub struct Named(OnceCell<Box<Names>>);

/// Pair of names as a line needs them.
#[derive(Debug)]
pub struct Names {
    /// JSON fields, with the leading comma.
    pub json: Cow<'static, [u8]>,
    /// The listener, or the pool.
    pub first: Option<Box<str>>,
    /// The route, or the endpoint.
    pub second: Option<Box<str>>,
}

/// Names for requests that reached no pool.
pub static NOWHERE: Names =
    Names { json: Cow::Borrowed(b",\"pool\":null,\"endpoint\":null"), first: None, second: None };

impl Named {
    /// Returns the names of a listener and a route. The arguments count at the first call only.
    pub fn taken<'a>(&self, listener: &str, route: impl FnOnce() -> Option<&'a str>) -> &Names {
        self.0.get_or_init(|| names([",\"listener\":", ",\"route\":"], listener, route()))
    }

    /// Returns the names of a pool and an endpoint. The arguments count at the first call only.
    pub fn sent(&self, pool: &str, endpoint: Option<&str>) -> &Names {
        self.0.get_or_init(|| names([",\"pool\":", ",\"endpoint\":"], pool, endpoint))
    }
}

#[cold]
fn names(keys: [&str; 2], first: &str, second: Option<&str>) -> Box<Names> {
    let mut json = Vec::new();
    for (key, name) in keys.into_iter().zip([Some(first), second]) {
        json.extend_from_slice(key.as_bytes());
        match name {
            Some(name) => quoted(&mut json, name.as_bytes()),
            None => json.extend_from_slice(b"null"),
        }
    }
    Box::new(Names { json: json.into(), first: Some(first.into()), second: second.map(Into::into) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_once() {
        let (taken, sent) = (Named::default(), Named::default());
        assert_eq!(*taken.taken("a", || Some("\"")).json, *br#","listener":"a","route":"\"""#);
        assert_eq!(*taken.taken("a", || unreachable!("it is written")).json, *br#","listener":"a","route":"\"""#);
        assert_eq!(*sent.sent("b", None).json, *br#","pool":"b","endpoint":null"#);
    }
}
