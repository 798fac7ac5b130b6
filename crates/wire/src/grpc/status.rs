//! gRPC statuses, with their names in the configuration, the access log and metrics.

/// A status of gRPC, in the order of the codes (statuscodes.md of gRPC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

use Status::*;

/// Every status with its name. The index is the code.
const ALL: [(Status, &str); 17] = [
    (Ok, "ok"),
    (Cancelled, "cancelled"),
    (Unknown, "unknown"),
    (InvalidArgument, "invalid-argument"),
    (DeadlineExceeded, "deadline-exceeded"),
    (NotFound, "not-found"),
    (AlreadyExists, "already-exists"),
    (PermissionDenied, "permission-denied"),
    (ResourceExhausted, "resource-exhausted"),
    (FailedPrecondition, "failed-precondition"),
    (Aborted, "aborted"),
    (OutOfRange, "out-of-range"),
    (Unimplemented, "unimplemented"),
    (Internal, "internal"),
    (Unavailable, "unavailable"),
    (DataLoss, "data-loss"),
    (Unauthenticated, "unauthenticated"),
];

impl Status {
    /// Names of all statuses. The index is the code.
    pub const NAMES: &'static [&'static str; 17] = &{
        let mut names = [""; 17];
        let mut at = 0;
        while at < 17 {
            names[at] = ALL[at].1;
            at += 1;
        }
        names
    };

    /// Status with this code; `None` above 16.
    pub fn of_code(code: u8) -> Option<Status> {
        ALL.get(usize::from(code)).map(|(status, _)| *status)
    }

    /// Numeric code, 0 to 16.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Name in the configuration, the access log and metrics.
    pub fn name(self) -> &'static str {
        Status::NAMES[usize::from(self.code())]
    }

    /// Status with this [`name`](Self::name).
    pub fn of_name(name: &str) -> Option<Status> {
        ALL.iter().find(|(_, word)| *word == name).map(|(status, _)| *status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_lead_to_the_same_status() {
        for code in 0..=16 {
            let status = Status::of_code(code).expect("there are 17");
            assert_eq!((status.code(), Status::of_name(status.name())), (code, Some(status)));
        }
        assert_eq!(Status::of_code(17), None);
        assert_eq!(
            [4, 14].map(|code| Status::of_code(code).map(Status::name)),
            [Some("deadline-exceeded"), Some("unavailable")]
        );
    }
}
