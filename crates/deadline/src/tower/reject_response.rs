//! Response to a rejected request.
//!
//! Plain HTTP: 504 for too little time, 503 for a full queue, with one line of text. gRPC: a
//! headers-only response with DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED.
//! Source: gRPC over HTTP/2, "Responses" (Trailers-Only); RFC 9110 §15.6.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::is_grpc;
use crate::Reason;

/// Rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Reason.
    pub reason: Reason,
    /// True for a gRPC call, by content type.
    pub grpc: bool,
}

impl Rejection {
    /// Rejection of a request with `headers` for `reason`.
    #[must_use]
    pub fn new(reason: Reason, headers: &HeaderMap) -> Self {
        Self { reason, grpc: is_grpc(headers) }
    }

    /// 503 if the queue was full, else 504.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Expired | Reason::Infeasible => StatusCode::GATEWAY_TIMEOUT,
            Reason::Full => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// RESOURCE_EXHAUSTED (8) if the queue was full, else DEADLINE_EXCEEDED (4).
    #[must_use]
    pub fn grpc_code(&self) -> u16 {
        match self.reason {
            Reason::Expired | Reason::Infeasible => 4,
            Reason::Full => 8,
        }
    }
}

/// Factory of responses to rejected requests; implemented by `Fn(Rejection) -> Response<B>`.
pub trait RejectResponse<B> {
    /// Response to the request that `rejection` describes.
    fn respond(&self, rejection: Rejection) -> Response<B>;
}

impl<B, F: Fn(Rejection) -> Response<B>> RejectResponse<B> for F {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        self(rejection)
    }
}

/// One line of text; for a gRPC call the response of [`Grpc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text;

impl<B: Default + From<String>> RejectResponse<B> for Text {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        if rejection.grpc {
            return Grpc.respond(rejection);
        }
        let mut response = Response::new(B::from(format!("{}\n", rejection.reason)));
        *response.status_mut() = rejection.status();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, text);
        response
    }
}

/// gRPC status without a body, for servers that speak only gRPC: tonic's body cannot be made
/// from text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grpc;

impl<B: Default> RejectResponse<B> for Grpc {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(STATUS, HeaderValue::from(rejection.grpc_code()));
        let message = HeaderValue::try_from(rejection.reason.to_string());
        headers.insert(MESSAGE, message.expect("reasons are ASCII and need no escape"));
        response
    }
}

/// Header with the status code of a gRPC response.
pub(super) const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
