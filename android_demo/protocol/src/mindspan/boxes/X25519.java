package mindspan.boxes;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.HexFormat;
import javax.crypto.KeyAgreement;

/** Exchanges of X25519 with keys as 32 plain bytes. */
public final class X25519 {
  public static final int KEY_SIZE = 32;
  private static final byte[] PUBLIC_PREFIX = HexFormat.of().parseHex("302a300506032b656e032100");
  private static final byte[] SECRET_PREFIX =
      HexFormat.of().parseHex("302e020100300506032b656e04220420");
  private static final BigInteger PRIME = BigInteger.TWO.pow(255).subtract(BigInteger.valueOf(19));
  private static final byte[] BASE_POINT = new byte[KEY_SIZE];

  static {
    BASE_POINT[0] = 9;
  }

  private X25519() {}

  public static byte[] publicKey(byte[] secret) {
    try {
      return exchange(secret, BASE_POINT);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  /** 32 shared bytes; fails where the public key is of low order. */
  public static byte[] exchange(byte[] secret, byte[] publicKey) throws GeneralSecurityException {
    KeyFactory factory = KeyFactory.getInstance("X25519");
    byte[] encoded = Bytes.join(SECRET_PREFIX, secret);
    try {
      PrivateKey mine = factory.generatePrivate(new PKCS8EncodedKeySpec(encoded));
      byte[] other = Bytes.join(PUBLIC_PREFIX, publicKey);
      PublicKey theirs = factory.generatePublic(new X509EncodedKeySpec(other));
      KeyAgreement agreement = KeyAgreement.getInstance("X25519");
      agreement.init(mine);
      agreement.doPhase(theirs, true);
      return agreement.generateSecret();
    } finally {
      Bytes.wipe(encoded);
    }
  }

  /** Whether the key is below the prime: in a second form a copied key would look like another. */
  public static boolean isCanonical(byte[] publicKey) {
    byte[] bigEndian = new byte[KEY_SIZE];
    for (int i = 0; i < KEY_SIZE; i++) {
      bigEndian[i] = publicKey[KEY_SIZE - 1 - i];
    }
    return new BigInteger(1, bigEndian).compareTo(PRIME) < 0;
  }
}
