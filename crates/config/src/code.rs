//! Codes of findings, a row for each. A code never changes its meaning and is never reused.

/// Severity of a finding: errors prevent a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Prevents the plan from being built.
    Error,
    /// Allows the plan, which is probably not the intention.
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
        /// Kind of a finding, with a stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code, in the order of their numbers.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// The code itself, such as `EK0102`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// Meaning of the code, in a phrase.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => $meaning,)* }
            }

            /// Severity of every finding with this code.
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
    Error   Include           "EK0005" "an include that cannot be followed"
    Error   Undefined         "EK0006" "an environment variable is not defined"
    Error   Reference         "EK0007" "a `${` that is not closed or has no name"
    Error   MoreErrors        "EK0008" "more errors than are shown"

    Error   UnknownKey        "EK0101" "unknown key"
    Error   UnknownAlgorithm  "EK0102" "unknown balancing algorithm"
    Error   WrongType         "EK0103" "a value of the wrong type"
    Error   OutOfRange        "EK0104" "a value out of range"
    Error   Missing           "EK0105" "a required key is missing"
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
    Error   BadTemplate       "EK0116" "not a value with variables"
    Error   BadRegex          "EK0118" "not a regular expression"
    Error   BadRow            "EK0120" "a wrong row of a map"

    Error   UnknownPool       "EK0201" "unknown pool"
    Error   UnknownListener   "EK0202" "unknown listener"
    Error   SameMatch         "EK0203" "two routes match the same requests"
    Error   Overlap           "EK0204" "two overlapping matches, neither more specific"
    Error   SameEndpoint      "EK0205" "an endpoint occurs twice in its pool"
    Error   SameAddress       "EK0206" "an address is bound twice"
    Error   NothingToDo       "EK0207" "no listener, no pool, no endpoint or no route"
    Error   PlaneLacks        "EK0208" "the algorithm needs something that the pool does not provide"
    Error   Refused           "EK0209" "the algorithm rejects these parameters"
    Error   SameName          "EK0210" "a name is used twice"
    Error   Contradiction     "EK0211" "mutually exclusive settings"
    Error   NotHere           "EK0212" "a file, folder or address that this machine does not have"
    Error   Loop              "EK0213" "an endpoint that leads back to evenkeel, in an endless loop"
    Error   Certificate       "EK0214" "an unusable certificate or key"
    Error   UnknownSet        "EK0215" "unknown set of filters"
    Error   NoPlane           "EK0216" "a plane that this machine does not provide"
    Error   UnknownLimit      "EK0217" "unknown limit"
    Error   UnknownMap        "EK0218" "a map that does not exist, or whose input is not known at its place"
    Error   UnknownRoute      "EK0219" "unknown route"

    Warning UnusedPool        "EK0301" "no route leads to the pool"
    Warning NoTraffic         "EK0302" "no endpoint of the pool can get traffic"
    Warning EmptyInclude      "EK0303" "an include matches no file"
    Warning UnusedListener    "EK0304" "no route takes requests from the listener"
    Warning TimeoutOrder      "EK0305" "a timeout that another timeout makes ineffective"
    Warning TrustsAll         "EK0306" "every client can claim any address"
    Warning AtOdds            "EK0307" "settings that work against each other"
    Warning UnknownZone       "EK0308" "no endpoint is in the zone"
    Warning OddMatch          "EK0309" "a match that probably does not work as intended"
    Warning NotMine           "EK0310" "a file that the checking user may not access"
    Warning WeakCertificate   "EK0311" "a certificate or key that works but should be reviewed"
    Warning NotCovered        "EK0312" "a host that no certificate of its listener covers"
    Warning NotVerified       "EK0313" "certificates of endpoints are not verified"
    Warning MoreWarnings      "EK0314" "more warnings than are shown"
    Warning NotAsked          "EK0315" "a plane that may not work, or that the checking user may not query"
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
