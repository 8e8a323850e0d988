package mindspan.boxes;

import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.spec.NamedParameterSpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;

/** An identity in software, from 32 secret bytes; and the check of anybody's signature. */
public final class Ed25519 implements Identity {
  public static final int SIGNATURE_SIZE = 64;
  private static final byte[] PUBLIC_PREFIX = HexFormat.of().parseHex("302a300506032b6570032100");

  private final PrivateKey secret;
  private final byte[] publicKey;

  public Ed25519(byte[] seed) {
    try {
      // The generator takes its 32 random bytes as the seed: the only way to the public key.
      KeyPairGenerator generator = KeyPairGenerator.getInstance("Ed25519");
      generator.initialize(NamedParameterSpec.ED25519, new Given(seed));
      KeyPair pair = generator.generateKeyPair();
      secret = pair.getPrivate();
      byte[] encoded = pair.getPublic().getEncoded();
      publicKey = Arrays.copyOfRange(encoded, PUBLIC_PREFIX.length, encoded.length);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public byte[] publicKey() {
    return publicKey.clone();
  }

  @Override
  public byte[] sign(byte[] label, byte[] message) {
    try {
      Signature signer = Signature.getInstance("Ed25519");
      signer.initSign(secret);
      signer.update(Bytes.join(label, new byte[1], message));
      return signer.sign();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Whether the holder of a public key signed the label and the message. */
  public static boolean verifies(byte[] publicKey, byte[] label, byte[] message, byte[] signature) {
    try {
      X509EncodedKeySpec spec = new X509EncodedKeySpec(Bytes.join(PUBLIC_PREFIX, publicKey));
      Signature verifier = Signature.getInstance("Ed25519");
      verifier.initVerify(KeyFactory.getInstance("Ed25519").generatePublic(spec));
      verifier.update(Bytes.join(label, new byte[1], message));
      return verifier.verify(signature);
    } catch (GeneralSecurityException e) {
      return false; // a key or a signature that is none
    }
  }

  /** Randomness that was drawn before. */
  private static final class Given extends SecureRandom {
    private static final long serialVersionUID = 1;
    private final transient byte[] seed;

    Given(byte[] seed) {
      this.seed = seed;
    }

    @Override
    public void nextBytes(byte[] target) {
      System.arraycopy(seed, 0, target, 0, target.length);
    }
  }
}
