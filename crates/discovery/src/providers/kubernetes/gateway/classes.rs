//! GatewayClasses of this controller.

use crate::providers::kubernetes::statuses::status::{Condition, Says, Statuses, Wanted};
use crate::providers::kubernetes::world::store::{Kind, World};

/// Features of the Gateway API that are served, by the names of its conformance suite.
pub const FEATURES: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteRetry",
    "HTTPRouteRetryBackendTimeout",
    "HTTPRouteRetryConnectionError",
    "HTTPRouteSchemeRedirect",
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

/// Names of the classes whose Gateways are served. Classes of this controller get their statuses.
pub fn accepted<'w>(world: &'w World, controller: &str, statuses: &mut Statuses) -> Vec<&'w str> {
    let mut names = Vec::new();
    for (key, class) in world.classes.iter().filter(|(_, class)| class.spec.controller_name == controller) {
        let condition = match class.spec.parameters_ref {
            None => Condition::yes("Accepted", "Accepted"),
            Some(_) => Condition::no("Accepted", "InvalidParameters", "no parameters are known"),
        };
        if condition.holds {
            names.push(&*class.metadata.name);
        }
        let says = Says::Class { conditions: vec![condition], features: FEATURES.to_vec() };
        statuses.insert((Kind::GatewayClass, key.clone()), Wanted { generation: class.metadata.generation, says });
    }
    names
}
