//! Results of lookups, insertions and purges.

use super::object::Object;
use crate::moment::Moment;
use crate::refusal;
use std::sync::Arc;

/// An object that was found.
#[derive(Debug)]
pub struct Hit<H> {
    pub object: Arc<Object<H>>,
    /// Moment of a purge with [`Fate::Stale`] that covers it: it is stale since then, whatever its head states.
    pub stale_from: Option<Moment>,
    /// Hits of the key, including this lookup.
    pub hits: u32,
}

/// Object to restore, with its known history.
#[derive(Debug)]
pub struct Restored<H> {
    pub object: Arc<Object<H>>,
    /// Moment of the soft purge that covers it.
    pub stale_from: Option<Moment>,
    /// Hits of its key, including its other variants.
    pub hits: u32,
}

impl<H> Clone for Restored<H> {
    fn clone(&self) -> Restored<H> {
        Restored { object: self.object.clone(), ..*self }
    }
}

/// Result of looking for a variant of a key.
#[derive(Debug)]
pub enum Found<H> {
    Hit(Hit<H>),
    /// The key is known, and none of its variants was chosen.
    OtherVariants,
    Nothing,
}

/// Result of an insertion, with the reason if there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    Added,
    /// Stored instead of the same variant.
    Replaced,
    Refused(Refusal),
}

/// Reason why an object was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Larger than [`Options::object_max`].
    TooLarge,
    /// A purge that covers it, or may cover it, came after its fetch began.
    Purged,
    /// Used less than the objects together that would have to go for it.
    Unused,
    /// Older than the same variant, which is stored.
    Known,
}

impl From<Refusal> for refusal::Refusal {
    fn from(refused: Refusal) -> refusal::Refusal {
        match refused {
            Refusal::TooLarge => refusal::Refusal::BodyTooLarge,
            Refusal::Purged => refusal::Refusal::Purged,
            // `Known` is for restored objects only, which no request asks about.
            Refusal::Unused | Refusal::Known => refusal::Refusal::Unused,
        }
    }
}

/// Objects that a purge was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    pub objects: u64,
    /// Bytes of memory of these objects.
    pub bytes: u64,
}
