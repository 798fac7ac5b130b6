//! Keys, weights and identities reach the algorithm; builders that cannot work are rejected.

use crate::rows::{self, Request, Response};
use evenkeel_tower::{Balance, BuildError, Builder, EndpointId, stable_hash};
use std::collections::BTreeMap;
use std::convert::Infallible;
use tower::discover::Change;
use tower::{Service, ServiceExt};

type Named = tower::util::BoxService<Request, u32, Infallible>;

/// Endpoints that answer with their number.
fn numbered(numbers: &[u32]) -> tokio_stream::Iter<std::vec::IntoIter<Result<Change<u32, Named>, Infallible>>> {
    let change = |&number: &u32| {
        let service = tower::service_fn(move |_: Request| std::future::ready(Ok(number)));
        Ok(Change::Insert(number, tower::util::BoxService::new(service)))
    };
    tokio_stream::iter(numbers.iter().map(change).collect::<Vec<_>>())
}

async fn answers<C>(mut svc: Balance<C, Request>, requests: u64) -> Vec<u32>
where
    C: tower::discover::Discover<Key = u32, Service = Named, Error = Infallible> + Unpin,
{
    let mut got = Vec::new();
    for request in 0..requests {
        got.push(svc.ready().await.unwrap().call(request % 100).await.unwrap());
    }
    got
}

#[test]
fn the_same_key_goes_to_the_same_endpoint_whatever_the_order_of_discovery() {
    rows::steer(async {
        let build = |numbers: &[u32]| {
            let builder = Builder::new("maglev").unwrap().key(|request: &Request| stable_hash(&request.to_le_bytes()));
            builder.id(|number: &u32| EndpointId::of(&number.to_string())).build(numbered(numbers)).unwrap()
        };
        let got = answers(build(&[1, 2, 3, 4, 5]), 300).await;
        assert_eq!(got[..100], got[100..200]);
        assert_eq!(got, answers(build(&[4, 1, 5, 2, 3]), 300).await);
        let spread: BTreeMap<u32, usize> = got.iter().fold(BTreeMap::new(), |mut all, &n| {
            *all.entry(n).or_default() += 1;
            all
        });
        assert_eq!(spread.len(), 5, "{spread:?}");
    });
}

#[test]
fn shares_go_by_weight() {
    rows::steer(async {
        let builder = Builder::new("round_robin").unwrap().weight(|&number| number);
        let got = answers(builder.build(numbered(&[1, 2, 3])).unwrap(), 600).await;
        assert_eq!([1, 2, 3].map(|n| got.iter().filter(|&&g| g == n).count()), [100, 200, 300]);
    });
}

#[test]
fn the_first_discovered_is_the_first_in_the_list() {
    rows::steer(async {
        let got = answers(Builder::new("first").unwrap().build(numbered(&[7, 3, 5])).unwrap(), 10).await;
        assert_eq!(got, [7; 10]);
    });
}

#[test]
fn what_cannot_work_is_refused_with_a_way_out() {
    let refused = |result: Result<(), BuildError>| result.unwrap_err().to_string();
    type Any = Builder<u32, Request>;
    let list = || tower::discover::ServiceList::new(Vec::<tower_test::mock::Mock<Request, Response>>::new());
    let build = |name| Builder::new(name).unwrap().build(list()).map(drop);
    let names: Vec<&str> = evenkeel_balance::algorithms::ALL.iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(
        refused(Any::new("lestconn").map(drop)),
        format!("unknown algorithm \"lestconn\"; there are: {}", names.join(", "))
    );
    assert_eq!(
        refused(Any::new("peak_ewma").unwrap().set("decay", 10).map(drop)),
        "parameter \"decay\": 10 is not allowed; allowed: a duration from 100ms to 600s"
    );
    assert_eq!(refused(build("maglev")), "\"maglev\" needs a key of each request; give one with Builder::key");
    assert_eq!(
        refused(build("prequal")),
        "\"prequal\" needs the load that endpoints report; give a Completion whose REPORTS is true, or take \
         \"leastconn\", which counts by itself"
    );
    let table = Builder::new("maglev").unwrap().key(|_: &Request| 0).set("table", 1000).unwrap();
    assert!(refused(table.build(list()).map(drop)).contains("is not prime"));
    for algorithm in rows::all() {
        rows::balancer(algorithm, 1);
    }
}
