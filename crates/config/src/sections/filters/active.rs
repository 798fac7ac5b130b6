//! Filters that a route has.

use crate::sections::route::Route;
use crate::table::Declared;
use std::sync::LazyLock;

impl Route {
    /// Keys of the filters that the route has, in the order in which requests pass them.
    pub fn filters(&self) -> Vec<&'static str> {
        static UNSET: LazyLock<Route> = LazyLock::new(Route::unset);
        let unset = &*UNSET;
        let all = [
            ("compress", self.compress.is_some()),
            ("response_headers", self.response_headers != unset.response_headers),
            ("cookies", self.cookies != unset.cookies),
            ("cors", self.cors.is_some()),
            ("access", self.access.is_some()),
            ("limits", !self.limits.is_empty()),
            ("basic_auth", self.basic_auth.is_some()),
            ("jwt", self.jwt.is_some()),
            ("forward_auth", self.forward_auth.is_some()),
            ("maintenance", self.maintenance.is_some()),
            ("body_max", self.body_max.is_some()),
            ("bandwidth", self.bandwidth != unset.bandwidth),
            ("strip_prefix", self.strip_prefix),
            ("rewrite", self.rewrite.is_some()),
            ("restore_prefix", self.restore_prefix),
            ("send_host", self.send_host != unset.send_host),
            ("request_headers", self.request_headers != unset.request_headers),
            ("cache", self.cache.is_some()),
            ("mirror", !self.mirrors.is_empty()),
        ];
        all.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
    }
}
