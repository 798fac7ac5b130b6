//! Endpoints that may be asked at all: tiers, draining, and pools without a healthy endpoint.

use super::{by_turns, in_each_plane, pool, sites};
use std::time::Duration;

#[test]
fn a_standby_serves_only_while_the_active_tier_is_down() {
    in_each_plane(|plane| {
        let sites = sites();
        let setup = by_turns(plane, &sites, ["", "priority = 1", "priority = 1"], "");
        setup.serves(&[0]);
        sites[0].is(false);
        setup.becomes(0, false);
        setup.serves(&[1, 2]);
        sites[0].is(true);
        setup.becomes(0, true);
        setup.serves(&[0]);
    });
}

#[test]
fn an_endpoint_that_drains_gets_nobody_new() {
    in_each_plane(|plane| {
        let sites = sites();
        let setup = by_turns(plane, &sites, [""; 3], "");
        setup.serves(&[0, 1, 2]);
        setup.reload(&pool(&setup.addrs, "round_robin", ["", "drain = true", ""], ""));
        setup.serves(&[0, 2]);
        setup.reload(&pool(&setup.addrs, "round_robin", [""; 3], ""));
        setup.serves(&[0, 1, 2]);
    });
}

#[test]
fn when_nobody_is_well_all_are_asked_or_nobody() {
    in_each_plane(|plane| {
        let sites = sites();
        let setup = by_turns(plane, &sites, [""; 3], "");
        sites.iter().for_each(|site| site.is(false));
        (0..3).for_each(|i| setup.becomes(i, false));
        setup.serves(&[0, 1, 2]);
        setup.reload(&pool(&setup.addrs, "round_robin", [""; 3], "panic = { mode = 'refuse' }"));
        let began = setup.sum("evenkeel_no_pick_total{pool=\"web\",reason=\"empty\"}");
        // Silence cannot be told from an answer that is slow: that it was meant is seen by what is counted.
        assert_eq!(setup.ask_for(Duration::from_secs(1)), plane.refusal(), "{}", plane.name());
        let refused = setup.sum("evenkeel_no_pick_total{pool=\"web\",reason=\"empty\"}") - began;
        assert_eq!(refused >= 1.0, plane.forwards(), "{}: {refused}", plane.name());
        // Two of three are enough not to panic.
        (0..2).for_each(|i| sites[i].is(true));
        (0..2).for_each(|i| setup.becomes(i, true));
        setup.serves(&[0, 1]);
    });
}
