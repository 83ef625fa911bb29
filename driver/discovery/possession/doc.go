// Copyright (c) Kolo authors
// SPDX-License-Identifier: MPL-2.0

// Package possession proves knowledge of the signature of a JSON Web Token
// without showing the signature. It is pure: no I/O, no clock.
//
// Agents of one job recognize each other by tokens that Nomad has signed (workload
// identities). Nomad accepts such a token from anyone, so anyone who receives a token can
// use it. An agent therefore does not send its token. It sends the token's header and
// claims, which are no secret, and a proof that it knows Nomad's signature of exactly
// these bytes. The proof is made for a context, for example a TLS public key and a
// validity period, and is worthless in any other. Only the signature stays secret, and
// without it the rest is not a token.
//
//	token = header.claims.signature        sent = header.claims + proof(context)
//
// OpenPubkey (Heilman et al., "OpenPubkey: Augmenting OpenID Connect with User-held Signing
// Keys", 2023) uses the same technique to prevent replay of ID tokens.
//
// # RS256: Guillou and Quisquater
//
// Every root key made since Nomad 1.7 signs with RSA. Its public key is (n, e), X is the
// padded hash of header.claims (EMSA-PKCS1-v1_5, RFC 8017), and the signature is the S with
// S^e = X mod n. The proof is a Guillou-Quisquater signature (L. Guillou and J.-J.
// Quisquater, "A Paradoxical Identity-Based Signature Scheme Resulting from
// Zero-Knowledge", CRYPTO '88; GQ1 of ISO/IEC 14888-2) of 16 parallel rounds:
//
//	prover:   r_i random,  T_i = r_i^e,  c_1…c_16 = hash(context, X, T_1…T_16)
//	          z_i = r_i · S^c_i                                    sends c, z_1…z_16
//	verifier: T_i = z_i^e · X^-c_i,  accepts if hash(context, X, T_1…T_16) = c
//
// Each challenge c_i has 16 bits; together they are the whole SHA-256 hash.
//
// Why a prover must know S: two accepted answers z, z' to the same T, with challenges c ≠
// c', give (z/z')^e = X^(c-c'). The challenges are below e and e is prime, so e and c-c'
// have no common factor, and Euclid's algorithm yields the e-th root of X, which is S. So a
// prover who does not know S can answer at most one challenge per round, 2^-256 of all. The
// argument needs e to be a prime above every challenge (Verify accepts only 65537, the
// exponent of all of Nomad's keys) and z to be a unit: z = 0 would pass for T = 0.
//
// Why the proof does not reveal S: for any challenge, (T, z) with a random z and T = z^e ·
// X^-c has the distribution of a real round. The verifier could have produced everything
// that it sees on its own, except for the hash. This needs r to be uniform and secret.
//
// # EdDSA
//
// Root keys that were made before Nomad 1.7 sign with Ed25519. This package has no proof
// for them, since Nomad replaces them: a root key older than root_key_rotation_threshold
// (720 hours by default) gives way to one that signs with RSA. So a cluster signs with RSA
// at the latest 30 days after the update of its servers to 1.7, and earlier after a `nomad
// operator root keyring rotate`.
//
// # Limits
//
// The verifier sees the claims. The proof states that its maker knew the signature, not
// when the token expires or whom it is for: the verifier must check the claims. Whoever
// obtains the signature can make the same proofs as its owner.
package possession
