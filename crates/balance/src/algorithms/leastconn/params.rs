//! Parameters of `leastconn`, with the measurements behind their defaults.

use crate::parts::probe_budget::PROBE_RATE_MAX;
use crate::seam::params::{Kind, Param, Value};
use crate::structures::time::{MILLISECOND_NS, SECOND_NS};

pub static ALL: &[Param] = &[
    Param {
        name: "samples",
        kind: Kind::Float { min: 0.0, max: 8.0 },
        default: Value::Float(2.0),
        help: "Average number of endpoints to ask for their requests in flight per request, if endpoints can be asked.",
        why: "2 in Vargaftik et al. Simulated with 100 balancers in front of 100 servers with changing capacity, at 90 \
              % load: p99 1020 ms without, 115 with 1, 99 with 2, 95 with 4; the shortest queue of all 81.",
    },
    PROBE_RATE_MAX,
    Param {
        name: "report_age_max",
        kind: Kind::Duration { min: MILLISECOND_NS, max: 60 * SECOND_NS },
        default: Value::Duration(SECOND_NS),
        help: "Maximum age of an endpoint's report of its requests in flight.",
        why: "In the simulation above, an endpoint is asked about seven times a second. When no endpoint has reported \
              for this long, only the requests of this process count.",
    },
    Param {
        name: "slow_factor",
        kind: Kind::Float { min: 0.0, max: 100.0 },
        default: Value::Float(2.0),
        help: "Ratio of an endpoint's reported latency to the usual latency at its weight above which it counts as \
               slow. A slow endpoint counts as if it had as many more requests as the ratio, less one, until its \
               latency is half way back to usual. 0 compares only requests in flight.",
        why: "Two balancers, six endpoints that work on one request at a time, one of them four times slower, 60 % \
              load, simulated (`sidecars`): p99 108 ms without reports, 81 with 0, 25 with 1.5, with 2 and with 3. If \
              all endpoints are alike, the value has no effect. If each is slow for one second in six: 95 with 0, 100 \
              with 3, 108 with 2, 110 with 1.5, because an endpoint that was slow counts as slow for some more \
              seconds.",
    },
    Param {
        name: "sibling_reads",
        kind: Kind::Int { min: 0, max: 8 },
        default: Value::Int(4),
        help: "Endpoints per pick at which to read the requests in flight of other workers of this process; 0 compares \
               only the worker's own.",
        why: "Simulated with 64 workers in front of 100 servers at 90 % load: p99 715 ms with 0, 98 with 2, 90 with 4, \
              87 with 8, and 81 if each worker knew all requests.",
    },
];
