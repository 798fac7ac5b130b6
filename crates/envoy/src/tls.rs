//! TLS with clients and with endpoints.

use crate::node::Node;
use evenkeel_config::plan::{
    Certificate, ClientAuth, ClientAuthMode, ListenerTls, Pem, PoolTls, TlsVersion, UnknownName,
};

/// Sources of a validation other than `validation_context`.
const VALIDATIONS: [&str; 4] = [
    "validation_context_sds_secret_config",
    "combined_validation_context",
    "validation_context_certificate_provider",
    "validation_context_certificate_provider_instance",
];

/// Proofs of an endpoint other than an authority.
const PROOFS: [&str; 6] = [
    "verify_certificate_hash",
    "verify_certificate_spki",
    "match_subject_alt_names",
    "match_typed_subject_alt_names",
    "custom_validator_config",
    "ca_certificate_provider_instance",
];

/// Returns the TLS of a filter chain.
///
/// # Errors
/// The field that no listener of a plan can have.
pub fn with_clients(node: &Node<'_>) -> Result<ListenerTls, String> {
    let common = node.node("common_tls_context").ok_or("it has no common_tls_context")?;
    let mut tls = ListenerTls { min_version: min_version(common), ..ListenerTls::default() };
    for certificate in common.nodes("tls_certificates") {
        let Some((cert, key)) = certificate.part(pair(certificate))? else { continue };
        let ocsp = certificate.node("ocsp_staple").and_then(|ocsp| ocsp.text("filename")).map(Into::into);
        tls.certificates.push(Certificate { cert: Some(cert), key: Some(key), ocsp, ..Certificate::default() });
    }
    if tls.certificates.is_empty() {
        common.without("tls_certificates: it has no certificate".to_owned())?;
        common.differs("its certificates are not in the file: a self-signed one is used");
        tls.self_signed = true;
    }
    if node.wrapped("require_sni") == Some(1) {
        tls.unknown_name = UnknownName::Reject;
    }
    let is_required = node.wrapped("require_client_certificate") == Some(1);
    let validation = common.node("validation_context");
    if let Some(of) = validation.filter(|of| of.number("trust_chain_verification") != 0) {
        of.refuse("trust_chain_verification", "certificates are verified")
            .map_err(|why| format!("validation_context.{why}"))?;
    }
    match validation.and_then(|of| Some((of, of.node("trusted_ca")?))) {
        Some((validation, ca)) => {
            let mode = if is_required { ClientAuthMode::Required } else { ClientAuthMode::Optional };
            let auth = validation
                .node("crl")
                .map(|crl| source(crl, "crl"))
                .transpose()
                .and_then(|crl| Ok(ClientAuth { mode, ca: source(ca, "trusted_ca")?, crl }));
            tls.client_auth = Some(validation.whole(auth)?);
        }
        None if is_required => {
            return Err("require_client_certificate: validation_context has no trusted_ca".to_owned());
        }
        None => {}
    }
    Ok(tls)
}

/// Returns the TLS of a cluster.
///
/// # Errors
/// The field that no pool of a plan can have.
pub fn with_endpoints(node: &Node<'_>) -> Result<PoolTls, String> {
    let mut tls =
        PoolTls { server_name: node.text("sni").filter(|sni| !sni.is_empty()).map(Into::into), ..PoolTls::default() };
    // Without a server name, evenkeel uses the name of each endpoint.
    node.flag("auto_host_sni");
    // Envoy verifies nothing unless an authority is named.
    tls.verify = false;
    let Some(common) = node.node("common_tls_context") else {
        node.differs("certificates of endpoints are not verified, as in Envoy without trusted_ca");
        return Ok(tls);
    };
    tls.min_version = min_version(common);
    let mut certificates = common.nodes("tls_certificates");
    if let Some(certificate) = certificates.next()
        && let Some((cert, key)) = certificate.part(pair(certificate))?
    {
        (tls.cert, tls.key) = (Some(cert), Some(key));
    }
    if certificates.next().is_some() {
        common.without("tls_certificates: a pool shows one certificate".to_owned())?;
    }
    // Names, hashes and authorities from elsewhere are verified there: not less is verified here.
    tls.verify = common.is_of_file() && VALIDATIONS.iter().any(|name| common.has(name));
    if let Some(validation) = common.node("validation_context") {
        tls.verify |= validation.mark("system_root_certs");
        tls.verify |= validation.is_of_file() && PROOFS.iter().any(|name| validation.has(name));
        if let Some(ca) = validation.node("trusted_ca") {
            (tls.ca, tls.verify) = (Some(source(ca, "trusted_ca")?), true);
        }
        tls.verify &= validation.number("trust_chain_verification") == 0;
    }
    if !tls.verify {
        node.differs("certificates of endpoints are not verified, as in Envoy without trusted_ca");
    }
    Ok(tls)
}

fn min_version(common: &Node<'_>) -> TlsVersion {
    match common.node("tls_params").map_or(0, |params| params.number("tls_minimum_protocol_version")) {
        4 => TlsVersion::V13,
        _ => TlsVersion::V12,
    }
}

fn pair(certificate: &Node<'_>) -> Result<(Pem, Pem), String> {
    let chain = certificate.node("certificate_chain").ok_or("tls_certificates: a certificate_chain is missing")?;
    let key = certificate.node("private_key").ok_or("tls_certificates: a private_key is missing")?;
    Ok((source(chain, "certificate_chain")?, source(key, "private_key")?))
}

/// PEM of a `DataSource`: a file, or the text itself.
fn source(node: &Node<'_>, name: &str) -> Result<Pem, String> {
    if let Some(file) = node.text("filename").filter(|file| !file.is_empty()) {
        return Ok(Pem::File(file.into()));
    }
    if let Some(text) = node.text("inline_string").or(node.text("inline_bytes")) {
        return match Pem::of(text) {
            Pem::File(_) => Err(format!("{name}: its text is not PEM")),
            text => Ok(text),
        };
    }
    Err(format!("{name}: it has neither a filename nor text"))
}
