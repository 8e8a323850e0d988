package mindspan.boxes;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** SHA-256, hashes under a label, HKDF-SHA-256, and the root of a Merkle tree. */
public final class Hashes {
  private Hashes() {}

  /** 32 bytes over the parts, one after another. */
  public static byte[] sha256(byte[]... parts) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (byte[] part : parts) {
        digest.update(part);
      }
      return digest.digest();
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e); // every Java has SHA-256
    }
  }

  /** H(label, parts): SHA-256 of the label, a zero byte, and the parts. */
  public static byte[] labelled(byte[] label, byte[]... parts) {
    byte[][] all = new byte[parts.length + 2][];
    all[0] = label;
    all[1] = new byte[1];
    System.arraycopy(parts, 0, all, 2, parts.length);
    return sha256(all);
  }

  /** One digest over both that a client trains on, from the SHA-256 of each. */
  public static byte[] modelDigest(byte[] model, byte[] weights) {
    return labelled(Labels.MODEL, model, weights);
  }

  /** At most 32 bytes of HKDF-SHA-256 (RFC 5869): one block of it is all that is needed here. */
  static byte[] hkdf(byte[] secret, byte[] salt, byte[] info, int size) {
    byte[] key = hmac(salt, secret);
    try {
      return Arrays.copyOf(hmac(key, Bytes.join(info, new byte[] {1})), size);
    } finally {
      Arrays.fill(key, (byte) 0);
    }
  }

  /** The root over the leaves; the left half is the largest power of two below the whole. */
  public static byte[] merkleRoot(List<byte[]> leaves) {
    if (leaves.size() == 1) {
      return sha256(new byte[] {0}, leaves.get(0));
    }
    int half = Integer.highestOneBit(leaves.size() - 1);
    byte[] left = merkleRoot(leaves.subList(0, half));
    byte[] right = merkleRoot(leaves.subList(half, leaves.size()));
    return sha256(new byte[] {1}, left, right);
  }

  private static byte[] hmac(byte[] key, byte[] message) {
    try {
      Mac mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(key, "HmacSHA256"));
      return mac.doFinal(message);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }
}
