//! `report_load` of a listener, the endpoint's side of shared load: reports of this listener's load to balancers
//! in front. See [`ReportLoad`].

use crate::form::Form;
use crate::sections::pool::LOAD_PATH;
use crate::table::{Absent, Key, Kind, table};

table! {
    pub(crate) static REPORT_LOAD = "report_load of [listener.NAME]",
        "Reports the requests in flight through this listener, and the latency at that load, to balancers in front.";

    /// `report_load` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReportLoad {
        /// True if each response carries a report.
        header: bool = Key {
            name: "header",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds `endpoint-load-metrics` to each response, replacing the application's own.",
            why: "A field in a response costs less than a probe.",
        };
        /// True if UDP load probes are answered, at the listener's addresses and ports.
        udp: bool = Key {
            name: "udp",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Answers UDP load probes at the addresses and ports of `bind`.",
            why: "An answer is as long as its probe, so it cannot amplify a flood.",
        };
        /// Path that serves the load instead of being routed.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default(LOAD_PATH),
            help: "Path that serves the load. Requests for it are not routed.",
            why: "No application uses this path.",
        };
    }
}
