//! Orders for an endpoint: their text for the person who confirms them, and their request to the API.

use evenkeel_admin::api::endpoints::version;
use evenkeel_view::words::escaped;
use evenkeel_view::{Endpoint, Pool};
use hyper::Method;
use serde_json::json;

/// Kind of the change of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Drain,
    DrainNow,
    Undrain,
    Weight(Option<u32>),
    Up,
    Down,
    Auto,
    Eject,
    Restore,
}

/// An order that is to be confirmed.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pool: String,
    endpoint: String,
    /// Version that the order applies to. Refused if the version has changed.
    pub version: String,
    what: What,
}

impl Order {
    /// For this endpoint as it was shown.
    pub fn new(pool: &Pool, endpoint: &Endpoint, what: What) -> Order {
        Order { pool: pool.name.clone(), endpoint: endpoint.name.clone(), version: version(endpoint), what }
    }

    /// Returns the question to confirm.
    pub fn text(&self) -> String {
        let Order { pool, endpoint, .. } = self;
        match self.what {
            What::Drain => format!("Drain {endpoint} of {pool}: no new requests, except from its sticky clients"),
            What::DrainNow => format!("Drain {endpoint} of {pool} now: no new requests, sticky clients go elsewhere"),
            What::Undrain => format!("Undrain {endpoint} of {pool}: it gets requests again"),
            What::Weight(Some(weight)) => format!("Give {endpoint} of {pool} the weight {weight}"),
            What::Weight(None) => format!("Give {endpoint} of {pool} the configured weight again"),
            What::Up => format!("Count {endpoint} of {pool} as up, regardless of its checks"),
            What::Down => format!("Count {endpoint} of {pool} as down, regardless of its checks"),
            What::Auto => format!("Let the checks decide the state of {endpoint} of {pool}"),
            What::Eject => format!("Eject {endpoint} of {pool} for as long as outlier detection would"),
            What::Restore => format!("End the ejection of {endpoint} of {pool}"),
        }
    }

    /// Returns the request to the API: method, path, and JSON.
    pub fn request(&self) -> (Method, String, Option<String>) {
        let path = format!("/v1/pools/{}/endpoints/{}", escaped(&self.pool), escaped(&self.endpoint));
        let patch = match self.what {
            What::Drain => json!({ "drain": "keep-sessions" }),
            What::DrainNow => json!({ "drain": "now" }),
            What::Undrain => json!({ "drain": null }),
            What::Weight(weight) => json!({ "weight": weight }),
            What::Up => json!({ "health": "up" }),
            What::Down => json!({ "health": "down" }),
            What::Auto => json!({ "health": null }),
            What::Eject => return (Method::POST, path + "/eject", None),
            What::Restore => return (Method::POST, path + "/restore", None),
        };
        (Method::PATCH, path, Some(patch.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_says_what_it_asks_for() {
        let order = |what| {
            let (pool, endpoint) =
                (Pool { name: "a b".into(), ..Pool::default() }, Endpoint { name: "x".into(), ..Endpoint::default() });
            Order::new(&pool, &endpoint, what)
        };
        assert_eq!(order(What::Weight(Some(3))).text(), "Give x of a b the weight 3");
        let path = "/v1/pools/a%20b/endpoints/x".to_owned();
        assert_eq!(
            order(What::Weight(Some(3))).request(),
            (Method::PATCH, path.clone(), Some(r#"{"weight":3}"#.into()))
        );
        assert_eq!(order(What::Undrain).request(), (Method::PATCH, path.clone(), Some(r#"{"drain":null}"#.into())));
        assert_eq!(order(What::Eject).request(), (Method::POST, path + "/eject", None));
    }
}
