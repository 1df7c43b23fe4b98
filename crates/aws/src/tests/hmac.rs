//! An independent HMAC-SHA256, so that tests do not verify signatures with the code that created them.

use sha2::{Digest as _, Sha256};

/// Implements RFC 2104, section 2.
pub(crate) fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 64;
    let mut block = if key.len() > BLOCK_BYTES { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.resize(BLOCK_BYTES, 0);
    let padded = |pad: u8| block.iter().map(|byte| byte ^ pad).collect::<Vec<_>>();
    let inner = Sha256::digest([&padded(0x36)[..], message].concat());
    Sha256::digest([&padded(0x5c)[..], &inner[..]].concat()).to_vec()
}

/// RFC 4231, test cases 2 and 6.
#[test]
fn hmac_matches_the_rfc_test_vectors() {
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(
        hex(hmac_sha256(b"Jefe", b"what do ya want for nothing?")),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
    assert_eq!(
        hex(hmac_sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
    );
}
