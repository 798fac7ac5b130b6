//! Overload: more requests than the endpoints can do, so that those in flight grow.

use crate::doubt::Doubt;
use crate::record::Record;
use crate::traffic::Traffic;

/// Parts of the log whose mean numbers of requests in flight are compared.
const PARTS: usize = 6;

/// Growth from part to part that chance does not explain.
const GROWTH: f64 = 1.15;

pub(super) fn piles_up(_: &Record, traffic: &Traffic) -> Option<Doubt> {
    let arrivals = &traffic.trace.arrivals;
    if arrivals.len() < 100 * PARTS {
        return None;
    }
    let mean = |part: &[evenkeel_sim::replay::Arrival]| {
        part.iter().map(|a| f64::from(a.found_in_all)).sum::<f64>() / part.len() as f64
    };
    let means: Vec<f64> = arrivals.chunks(arrivals.len().div_ceil(PARTS)).map(mean).collect();
    let grows = means.windows(2).all(|pair| pair[1] > GROWTH * pair[0].max(2.0));
    (grows && means[means.len() - 1] > 3.0 * means[0].max(1.0)).then(|| {
        let text = format!(
            "requests in flight grow over the whole log, from {:.0} to {:.0}: more came than the endpoints can do, so times depend on how \
             long it lasts",
            means[0],
            means[means.len() - 1]
        );
        Doubt::new("overload", text, "give a log of a load that the endpoints can do")
    })
}
