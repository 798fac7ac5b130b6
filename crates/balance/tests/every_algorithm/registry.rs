//! Rows of the registry: unique names that are found, texts for the reference page, parameters whose defaults are
//! allowed, and a table that holds what the row's picks would.

use crate::support::rows;
use crate::support::world::{World, weighted};
use evenkeel_balance::{EndpointSpec, Instant, Outcome, Params, Pool, Request, Seat, algorithms};
use std::collections::BTreeSet;

#[test]
fn every_name_and_alias_means_one_row() {
    let mut seen = BTreeSet::new();
    for a in algorithms::ALL {
        for name in std::iter::once(&a.name).chain(a.aliases) {
            assert!(seen.insert(*name), "\"{name}\" means two rows");
            assert_eq!(algorithms::find(name).map(|found| found.name), Some(a.name));
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(plain), "\"{name}\" is not written like the others");
        }
    }
    assert!(algorithms::find("no such row").is_none());
}

#[test]
fn every_row_says_what_the_reference_page_needs() {
    for a in algorithms::ALL {
        assert!(!a.summary.is_empty() && !a.source.is_empty(), "row {}", a.name);
        assert!(a.docs.contains("**Use**") && a.docs.contains("**Do not use**"), "row {}: when to use it?", a.name);
        for p in a.params {
            assert!(!p.help.is_empty() && !p.why.is_empty(), "row {}: why is {} {}?", a.name, p.name, p.default);
            assert_eq!(p.kind.check(p.default), Ok(()), "row {}: the default of {}", a.name, p.name);
        }
        assert!((a.new)(&Params::defaults(a.params), Seat::default()).is_ok(), "row {}: refuses its defaults", a.name);
    }
}

#[test]
fn a_row_that_does_not_ask_never_wants_a_probe() {
    for row in rows::all() {
        assert!(row.algorithm.asks || !row.algorithm.needs.probes, "row {row} needs what it does not ask for");
        let mut pool = Pool::new(1);
        pool.update(&weighted(&[1; 10]), Instant(0));
        let mut b = row.balancer(&pool, Seat::default(), 1);
        let mut asked = false;
        for i in 0..1000 {
            let now = Instant(i * 1_000_000_000);
            let ticket = b.start(&Request { key: Some(i), ..Request::default() }, now).expect("all are idle");
            asked |= std::iter::from_fn(|| b.poll_probe(now)).take(100).count() > 0;
            b.end(ticket, Outcome::Success, now);
        }
        assert!(row.algorithm.asks || !asked, "row {row}");
    }
    // An algorithm that does ask asks with its defaults too.
    for row in rows::defaults().filter(|row| row.algorithm.asks) {
        let mut pool = Pool::new(1);
        pool.update(&weighted(&[1; 10]), Instant(0));
        let mut b = row.balancer(&pool, Seat::default(), 1);
        let ticket = b.start(&Request::default(), Instant(0)).expect("all are idle");
        assert!(b.poll_probe(Instant(0)).is_some(), "row {row}");
        b.end(ticket, Outcome::Success, Instant(1));
    }
}

#[test]
fn a_table_holds_only_members_by_weight_and_does_not_depend_on_order() {
    for row in rows::all() {
        let Some(table) = row.algorithm.table else { continue };
        for weights in [vec![1; 4], vec![10, 1, 1, 1], vec![5, 3, 2], vec![7]] {
            let mut specs = weighted(&weights);
            specs.push(EndpointSpec::new("drains").drain(true));
            let mut w = World::new(&row, 1, specs.clone(), 1, format!("a table for weights {weights:?}"));
            let before = table(&w.pool.view().set, &row.params);
            let total: u32 = weights.iter().sum();
            for (i, (spec, &weight)) in specs.iter().zip(&weights).enumerate() {
                let slot = w.slot(spec.id);
                let count = before.iter().filter(|&&s| s == slot).count() as f64;
                let want = before.len() as f64 * f64::from(weight) / f64::from(total);
                // Endpoints fill a table in turns, by weight; each may be one turn ahead or behind when it is full.
                w.ensure((count - want).abs() <= f64::from(weight) + 1.0, || {
                    format!("endpoint {i} has {count} of {} entries, its weight says {want:.0}", before.len())
                });
            }
            let foreign = before.iter().any(|&s| !specs.iter().zip(&weights).any(|(spec, _)| w.slot(spec.id) == s));
            w.ensure(!foreign, || "the table holds an endpoint that is not eligible".into());
            specs.reverse();
            w.reload(specs);
            let after = table(&w.pool.view().set, &row.params);
            w.ensure(before == after, || "the order of the configuration changed the table".into());
        }
        let empty = World::new(&row, 1, Vec::new(), 1, "a table without endpoints");
        assert!(table(&empty.pool.view().set, &row.params).is_empty(), "row {row}");
    }
}
