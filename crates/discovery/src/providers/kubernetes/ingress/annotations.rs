//! Annotations of an Ingress, in the words of ingress-nginx. See [`Annotations`].

use crate::providers::kubernetes::statuses::events::{Event, IGNORED, REFUSED};
use crate::providers::kubernetes::world::objects::Key;
use crate::providers::kubernetes::world::store::Kind;
use evenkeel_config::tables::duration_ns;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

/// Beginning of the names of annotations.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// Annotations that are text for the configuration of NGINX.
const SNIPPETS: [&str; 5] =
    ["configuration-snippet", "server-snippet", "stream-snippet", "auth-snippet", "modsecurity-snippet"];

/// Annotations whose effect is always there, or that have nothing to do here, with the reason.
const WITHOUT_EFFECT: [(&str, &str); 10] = [
    ("proxy-buffering", "bodies are passed on as they arrive"),
    ("proxy-buffer-size", "bodies are passed on as they arrive"),
    ("proxy-buffers-number", "bodies are passed on as they arrive"),
    ("proxy-request-buffering", "bodies are passed on as they arrive"),
    ("client-body-buffer-size", "bodies are passed on as they arrive"),
    ("proxy-max-temp-file-size", "bodies are passed on as they arrive"),
    ("custom-http-errors", "error pages belong into the configuration file: error_pages"),
    ("auth-signin", "the answer of the service of auth-url goes to the client: let it redirect"),
    ("auth-cache-key", "each request is decided about"),
    ("enable-global-auth", "no service decides about all Ingresses"),
];

/// Annotations of an Ingress. Events name unread annotations.
pub struct Annotations<'w> {
    all: BTreeMap<&'w str, &'w str>,
    read: BTreeSet<&'w str>,
    key: Key,
    /// Fate of requests that cannot be served as wanted, for events.
    pub effect: &'static str,
    /// Events about values that are not kept.
    pub events: Vec<Event>,
}

impl<'w> Annotations<'w> {
    pub fn new(of: &'w BTreeMap<String, String>, key: Key) -> Annotations<'w> {
        let all = of.iter().filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value.trim()))).collect();
        let all: BTreeMap<_, _> = all;
        let effect = match all.get("canary") {
            Some(&"true") => "this canary gets no requests",
            _ => "its requests are answered with 503",
        };
        Annotations { all, read: BTreeSet::new(), key, effect, events: Vec::new() }
    }

    /// Returns the value of an annotation; `None` if it is absent or empty.
    pub fn text(&mut self, name: &str) -> Option<&'w str> {
        let (name, value) = self.all.get_key_value(name)?;
        self.read.insert(name);
        Some(*value).filter(|value| !value.is_empty())
    }

    /// Returns the entries of a list with commas.
    pub fn list(&mut self, name: &str) -> Option<Vec<&'w str>> {
        Some(self.text(name)?.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect())
    }

    pub fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.text(name)?;
        match value {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                self.ignore(name, &format!("\"{value}\" is not true or false"));
                None
            }
        }
    }

    /// Returns a number that is not below `min`.
    pub fn number<T: FromStr + PartialOrd + std::fmt::Display>(&mut self, name: &str, min: T) -> Option<T> {
        let value = self.text(name)?;
        let number = value.parse().ok().filter(|number| *number >= min);
        if number.is_none() {
            self.ignore(name, &format!("\"{value}\" is not a number from {min} on"));
        }
        number
    }

    /// Returns a time: seconds, or a number with its unit.
    pub fn time(&mut self, name: &str) -> Option<Duration> {
        let value = self.text(name)?;
        let time = match value.parse::<u64>() {
            Ok(seconds) => Some(Duration::from_secs(seconds)),
            Err(_) => duration_ns(value).map(Duration::from_nanos),
        };
        let time = time.filter(|time| !time.is_zero());
        if time.is_none() {
            self.ignore(name, &format!("\"{value}\" is not a time"));
        }
        time
    }

    /// Names an annotation that has no effect.
    pub fn ignore(&mut self, name: &str, why: &str) {
        self.events.push(Event::warning(Kind::Ingress, &self.key, IGNORED, format!("{PREFIX}{name}: {why}")));
    }

    /// Names an annotation for which no request is let through, and returns the reason.
    pub fn refuse(&mut self, name: &str, why: &str) -> String {
        let why = format!("{PREFIX}{name}: {why}");
        let message = format!("{why}; {}", self.effect);
        self.events.push(Event::warning(Kind::Ingress, &self.key, REFUSED, message));
        why
    }

    /// Adds another event about the Ingress.
    pub fn event(&mut self, reason: &'static str, message: String) {
        self.events.push(Event::warning(Kind::Ingress, &self.key, reason, message));
    }

    /// Returns the annotations that were not read.
    pub fn left(&self) -> Vec<&'w str> {
        self.all.keys().filter(|name| !self.read.contains(*name)).copied().collect()
    }

    /// True if an annotation has this value. It does not count as read.
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.all.get(name).is_some_and(|there| *there == value)
    }

    /// Returns the first of these annotations that has a value, and marks it as known.
    pub fn first_of(&mut self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().find(|name| self.text(name).is_some()).copied()
    }

    /// Marks an annotation as known.
    pub fn skip(&mut self, name: &str) {
        self.text(name);
    }

    /// Names the annotations that were not read, and returns all events.
    pub fn finish(mut self) -> Vec<Event> {
        for name in self.left() {
            if SNIPPETS.contains(&name) {
                let message = format!("{PREFIX}{name}: text for NGINX is never executed");
                self.events.push(Event::warning(Kind::Ingress, &self.key, REFUSED, message));
                continue;
            }
            let why = WITHOUT_EFFECT.iter().find(|(of, _)| *of == name);
            self.ignore(name, why.map_or("it is not kept", |(_, why)| why));
        }
        self.events
    }
}
