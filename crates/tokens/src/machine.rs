//! Files of keys as `evenkeel check` inspects them.

use crate::keys::KeySet;
use evenkeel_config::Machine;

/// Adds inspections of files with keys of tokens to a machine.
pub fn with_keys(machine: Machine) -> Machine {
    Machine { keys: Box::new(|set| KeySet::read(set, true).map(drop)), ..machine }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_checked_by_its_keys() {
        let machine = with_keys(Machine::this());
        assert!((Machine::this().keys)(b"{}").is_ok() && (machine.keys)(b"{}").is_err());
        let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
        assert_eq!((machine.keys)(key.as_bytes()), Ok(()));
    }
}
