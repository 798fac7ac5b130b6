//! How do balancers in front learn the load of a listener? [`ReportLoad`], `report_load` of a listener: the endpoint's
//! side.

use crate::form::Form;
use crate::sections::pool::LOAD_PATH;
use crate::table::{Absent, Key, Kind, table};

table! {
    pub(crate) static REPORT_LOAD = "report_load of [listener.NAME]",
        "How balancers in front learn how many requests are in flight through this listener, and how long one takes at \
         that load.";

    /// `report_load` of a listener.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReportLoad {
        /// Whether each response has a report.
        header: bool = Key {
            name: "header",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Adds `endpoint-load-metrics` to each response, in place of the application's own.",
            why: "It costs less than a probe.",
        };
        /// Whether probes by datagram are answered, at the listener's addresses and ports.
        udp: bool = Key {
            name: "udp",
            kind: Kind::Bool,
            absent: Absent::Default("true"),
            help: "Answers probes by datagram, at the addresses and ports of `bind`.",
            why: "An answer is as long as its query, so it cannot be used to flood others.",
        };
        /// The path at which the load is served; no route gets it.
        path: String = Key {
            name: "path",
            kind: Kind::Text(Form::PlainPath),
            absent: Absent::Default(LOAD_PATH),
            help: "The path at which the load is served; no route gets requests for it.",
            why: "No application uses this path.",
        };
    }
}
