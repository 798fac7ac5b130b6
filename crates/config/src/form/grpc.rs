//! How did a gRPC call end? [`GrpcStatus`], with the words of the configuration, the access log and metrics.

/// A status of gRPC, in the order of their codes (doc/statuscodes.md of gRPC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GrpcStatus {
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

use GrpcStatus::*;

/// Every status with its word; its place is its code.
const ALL: [(GrpcStatus, &str); 17] = [
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

impl GrpcStatus {
    /// The words of all of them: their place is their code.
    pub const NAMES: &'static [&'static str; 17] = &{
        let mut names = [""; 17];
        let mut at = 0;
        while at < 17 {
            names[at] = ALL[at].1;
            at += 1;
        }
        names
    };

    /// The status of a code, 0 to 16.
    pub fn of_code(code: u8) -> Option<GrpcStatus> {
        ALL.get(usize::from(code)).map(|(status, _)| *status)
    }

    /// Its code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        GrpcStatus::NAMES[usize::from(self.code())]
    }

    /// The status whose word this is.
    pub(crate) fn of_name(name: &str) -> Option<GrpcStatus> {
        ALL.iter().find(|(_, word)| *word == name).map(|(status, _)| *status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_lead_to_the_same_status() {
        for code in 0..=16 {
            let status = GrpcStatus::of_code(code).expect("there are 17");
            assert_eq!((status.code(), GrpcStatus::of_name(status.name())), (code, Some(status)));
        }
        assert_eq!(GrpcStatus::of_code(17), None);
        assert_eq!(
            [4, 14].map(|code| GrpcStatus::of_code(code).map(GrpcStatus::name)),
            [Some("deadline-exceeded"), Some("unavailable")]
        );
    }
}
