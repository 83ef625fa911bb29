// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package possession proves knowledge of the signature of a JSON Web Token
// without showing the signature. It is pure: no I/O, no clock.
//
// Agents of one job recognize each other by tokens that Nomad has signed
// (workload identities). A token that is sent is a token that its receiver can
// use: Nomad accepts it from anyone. So an agent does not send it. It sends the
// token's header and claims, which are no secret, and a proof that it knows
// Nomad's signature of exactly these bytes. The proof is made for a context,
// for example a TLS public key and a validity period, and is worth nothing in
// another one. What remains secret, the signature, is what makes the token a
// token.
//
//	token = header.claims.signature        sent = header.claims + proof(context)
//
// OpenPubkey (Heilman et al., "OpenPubkey: Augmenting OpenID Connect with
// User-held Signing Keys", 2023) uses the same technique to keep ID tokens from
// being replayed.
//
// # RS256: Guillou and Quisquater
//
// Nomad signs with RSA, by all root keys made since 1.7. Its public key is (n, e), X is the padded hash
// of header.claims (EMSA-PKCS1-v1_5, RFC 8017), and the signature is the S with
// S^e = X mod n. The proof is a Guillou-Quisquater signature (L. Guillou and J.-J.
// Quisquater, "A Paradoxical Identity-Based Signature Scheme Resulting from
// Zero-Knowledge", CRYPTO '88; GQ1 of ISO/IEC 14888-2): 16 rounds side by side,
//
//	prover:   r_i random,  T_i = r_i^e,  c_1…c_16 = hash(context, X, T_1…T_16)
//	          z_i = r_i · S^c_i                                    sends c, z_1…z_16
//	verifier: T_i = z_i^e · X^-c_i,  accepts if hash(context, X, T_1…T_16) = c
//
// Each challenge c_i has 16 bits, and the hash, SHA-256, is used whole.
//
// Why no one proves what they do not know: from two accepted answers z, z' to
// the same T with challenges c ≠ c' follows (z/z')^e = X^(c-c'). The challenges
// are below e and e is prime, so e and c-c' have no common factor, and Euclid
// gives the e-th root of X: S itself. One who does not know S can therefore
// answer at most one challenge a round, 2^-256 of all. That argument needs e to
// be a prime above every challenge (Verify takes 65537 only, the exponent of all
// Nomad's keys) and z to be a unit: z = 0 would pass for T = 0.
//
// Why the proof does not show S: for any challenge, (T, z) with a random z and T =
// z^e · X^-c has the distribution of a real round. What the verifier sees, it
// could have made itself, except the hash. This needs r to be uniform and
// secret.
//
// # EdDSA
//
// Root keys that were made before Nomad 1.7 sign with Ed25519. There is no proof for
// them: Nomad replaces a root key that is older than root_key_rotation_threshold (720
// hours by default) with a new one, which signs with RSA. So a cluster signs with RSA
// from 30 days after its servers were updated to 1.7 on, or from the next `nomad operator
// root keyring rotate` on.
//
// # Limits
//
// The claims are shown to the verifier. The proof states that its maker knew the
// signature, not when the token expires or whom it is for: the verifier judges
// the claims. One who is given the signature can prove it, like its first owner.
package possession
