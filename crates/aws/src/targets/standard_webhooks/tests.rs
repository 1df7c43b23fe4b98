use super::*;

/// The test vectors from the Standard Webhooks project's own libraries: `test_sign` in libraries/rust/src/lib.rs, and
/// "sign function works" in all others (such as libraries/go/webhook_test.go,
/// libraries/javascript/src/webhook.test.ts).
#[test]
fn signatures_match_those_of_the_projects_own_libraries() {
    for (secret, id, timestamp, body, signature) in [
        (
            "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
            "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk",
            1_649_367_553,
            r#"{"email":"test@example.com","username":"test_user"}"#,
            "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ),
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
    ] {
        let secrets = SigningSecrets::parse(secret).unwrap();
        assert_eq!(secrets.joined_signatures(id, timestamp, body), signature);
    }
}

#[test]
fn two_secrets_produce_two_signatures_in_order() {
    let (one, other) = ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let signed = |text: &str| SigningSecrets::parse(text).unwrap().joined_signatures("id", 1, "{}");
    assert_eq!(signed(&format!("{one} {other}")), format!("{} {}", signed(one), signed(other)));
    assert_eq!(signed(&format!(" {other}\n{one}\n")), format!("{} {}", signed(other), signed(one)));
}

/// Returns a secret with this number of bytes.
fn secret_of_length(bytes: usize) -> String {
    format!("whsec_{}", STANDARD.encode(vec![7; bytes]))
}

#[test]
fn a_secret_has_24_to_64_bytes() {
    for bytes in [24, 32, 64] {
        assert!(SigningSecrets::parse(&secret_of_length(bytes)).is_ok(), "{bytes}");
    }
    for bytes in [0, 1, 23, 65] {
        let error = SigningSecrets::parse(&secret_of_length(bytes)).unwrap_err();
        assert_eq!(error, SigningSecretsError::WrongLength, "{bytes}");
        assert_eq!(
            error.to_string(),
            "has a secret that is not 24 to 64 bytes long; generate another: head -c 32 /dev/urandom | base64"
        );
    }
}

#[test]
fn an_invalid_or_third_signing_secret_is_refused() {
    let good = secret_of_length(24);
    for (text, error) in [
        (String::new(), SigningSecretsError::Empty),
        (" \n".to_owned(), SigningSecretsError::Empty),
        (format!("{good} {good} {good}"), SigningSecretsError::TooMany),
        (good.replace("whsec_", ""), SigningSecretsError::NotASecret),
        (good.replace("whsec_", "whsk_"), SigningSecretsError::NotASecret),
        (good.replace("whsec_", "WHSEC_"), SigningSecretsError::NotASecret),
        (format!("{good}="), SigningSecretsError::NotASecret),
        (format!("{good}*"), SigningSecretsError::NotASecret),
        (secret_of_length(32).trim_end_matches('=').to_owned(), SigningSecretsError::NotASecret),
        (secret_of_length(33).replace('B', "-"), SigningSecretsError::NotASecret),
        (format!("{good},{good}"), SigningSecretsError::NotASecret),
        (format!("{good} {}", secret_of_length(8)), SigningSecretsError::WrongLength),
    ] {
        assert_eq!(SigningSecrets::parse(&text).unwrap_err(), error, "{text:?}");
    }
}
