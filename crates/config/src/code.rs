//! What kinds of findings are there? One row each; a code never changes its meaning, and is never used again.

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// There is no plan.
    Error,
    /// There is a plan, and it is probably not what was meant.
    Warning,
}

impl Severity {
    /// `error` or `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($severity:ident $name:ident $code:literal $meaning:literal)*) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code, in the order of their numbers.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// `EK0102`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// What it means, one phrase.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning,)* }
            }

            /// Whether it forbids the plan.
            pub fn severity(self) -> Severity {
                match self { $(Code::$name => Severity::$severity,)* }
            }
        }
    };
}

codes! {
    Error   Unreadable        "EK0001" "a file cannot be read"
    Error   NotUtf8           "EK0002" "a file is not UTF-8"
    Error   Syntax            "EK0003" "a file is not TOML"
    Error   KeyInTwoFiles     "EK0004" "a key is set in two files"
    Error   Include           "EK0005" "an include that is not possible"
    Error   Undefined         "EK0006" "an environment variable is not defined"
    Error   Reference         "EK0007" "a `${` that is not closed or names nothing"
    Error   MoreErrors        "EK0008" "more errors than are shown"

    Error   UnknownKey        "EK0101" "a key that nothing reads"
    Error   UnknownAlgorithm  "EK0102" "no balancing algorithm of that name"
    Error   WrongType         "EK0103" "a value of another type"
    Error   OutOfRange        "EK0104" "a value out of its range"
    Error   Missing           "EK0105" "a key that must be set is missing"
    Error   BadDuration       "EK0106" "not a duration"
    Error   BadSize           "EK0107" "not a size"
    Error   BadAddress        "EK0108" "not an address"
    Error   NotAllowed        "EK0109" "not one of the allowed values"
    Error   BadHost           "EK0110" "not a host pattern"
    Error   BadPath           "EK0111" "not a path pattern"
    Error   BadHashKey        "EK0112" "not a hash key"
    Error   BadName           "EK0113" "not a name"
    Error   BadNetwork        "EK0114" "not a network"
    Error   BadStatus         "EK0115" "not a status"

    Error   UnknownPool       "EK0201" "no pool of that name"
    Error   UnknownListener   "EK0202" "no listener of that name"
    Error   SameMatch         "EK0203" "two routes match the same requests"
    Error   PathConflict      "EK0204" "two paths of which neither is more specific"
    Error   SameEndpoint      "EK0205" "an endpoint is in its pool twice"
    Error   SameAddress       "EK0206" "an address is bound twice"
    Error   NothingToDo       "EK0207" "no listener, no pool, no endpoint or no route"
    Error   PlaneLacks        "EK0208" "the algorithm needs what the pool does not provide"
    Error   Refused           "EK0209" "the algorithm refuses these parameters"
    Error   SameName          "EK0210" "a name is given twice"
    Error   Contradiction     "EK0211" "settings that exclude each other"
    Error   NotHere           "EK0212" "a file, folder or address that this machine does not have"
    Error   Loop              "EK0213" "an endpoint that is evenkeel itself, so that requests come back for ever"
    Error   Certificate       "EK0214" "a certificate or a key that cannot be used"

    Warning UnusedPool        "EK0301" "no route leads to the pool"
    Warning NoTraffic         "EK0302" "no endpoint of the pool may get traffic"
    Warning EmptyInclude      "EK0303" "an include matches no file"
    Warning UnusedListener    "EK0304" "no route takes requests from the listener"
    Warning TimeoutOrder      "EK0305" "a timeout that another one makes useless"
    Warning TrustsAll         "EK0306" "every client may claim another address"
    Warning AtOdds            "EK0307" "settings that work against each other"
    Warning UnknownZone       "EK0308" "no endpoint is in the zone"
    Warning OddMatch          "EK0309" "a match that takes something else than it seems to"
    Warning NotMine           "EK0310" "a file that the user of the check may not use"
    Warning WeakCertificate   "EK0311" "a certificate or a key that works, and should be looked at"
    Warning NotCovered        "EK0312" "a host that no certificate of its listener has"
    Warning NotVerified       "EK0313" "certificates of endpoints are not verified"
    Warning MoreWarnings      "EK0314" "more warnings than are shown"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_ascend_and_warnings_are_the_three_hundreds() {
        assert!(Code::ALL.is_sorted_by(|a, b| a.as_str() < b.as_str()));
        for code in Code::ALL {
            assert_eq!(code.as_str().starts_with("EK03"), code.severity() == Severity::Warning, "{}", code.as_str());
        }
    }
}
