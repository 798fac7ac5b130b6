//! The source `nomad`: registrations of a service in Nomad itself, by a blocking query.

use crate::blocking::{Query, follow};
use crate::entries::{address, endpoint, entries, zone};
use crate::kept::List;
use crate::out::Out;
use crate::registry::{encoded, never, server_of};
use evenkeel_config::plan::{Endpoint, Nomad};
use evenkeel_fetch::Fault;
use serde::Deserialize;

/// Follows the registrations of a service, forever.
pub(super) async fn run(nomad: Nomad, out: Out) -> ! {
    match query(&nomad) {
        Ok(query) => follow(query, move |body| registrations(body, &nomad), out).await,
        Err(error) => never(error, out).await,
    }
}

fn query(nomad: &Nomad) -> Result<Query, Fault> {
    let server = &nomad.server;
    // Any server may respond: an election must not stop discovery.
    let mut path = format!("/v1/service/{}?stale", encoded(&nomad.service));
    for (name, value) in [("namespace", &nomad.namespace), ("region", &nomad.region)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    Ok(Query {
        server: server_of(&server.url, &server.credentials)?,
        path,
        wait: server.wait,
        index: "x-nomad-index",
        token: server.credentials.token_file.clone().map(|file| ("x-nomad-token", file)),
        stale: None,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Registration {
    #[serde(default, rename = "ID")]
    id: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u64,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    datacenter: String,
}

pub(super) fn registrations(body: &[u8], nomad: &Nomad) -> Result<List, String> {
    entries(body, |registration: Registration| {
        let tags = registration.tags.unwrap_or_default();
        if !nomad.tags.iter().all(|tag| tags.contains(tag)) {
            return Ok(None);
        }
        let found = endpoint(&registration.id, address(&registration.address, registration.port)?);
        Ok(Some(Endpoint { zone: zone(&registration.datacenter)?, ..found }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_have_their_id_as_name_and_the_tags_that_are_asked_for() {
        let body = br#"[{"ID":"_nomad-task-1","Address":"10.0.0.1","Port":20001,"Tags":["v2","x"],"Datacenter":"dc1"},
            {"ID":"_nomad-task-2","Address":"10.0.0.2","Port":20002,"Tags":null,"Datacenter":"dc1"}]"#;
        let nomad = Nomad { service: "web".into(), tags: vec!["v2".into()], ..Nomad::default() };
        let list = registrations(body, &nomad).expect("a list");
        assert_eq!(list.endpoints.len(), 1);
        let one = &list.endpoints[0];
        assert_eq!(
            (&*one.name, one.addr.to_string(), one.zone.as_deref()),
            ("_nomad-task-1", "10.0.0.1:20001".into(), Some("dc1"))
        );
    }

    #[test]
    fn a_query_names_namespace_and_region() {
        let nomad =
            Nomad { service: "a b".into(), namespace: Some("*".into()), region: Some("eu".into()), ..Nomad::default() };
        assert_eq!(query(&nomad).expect("a URL").path, "/v1/service/a%20b?stale&namespace=%2A&region=eu");
    }
}
