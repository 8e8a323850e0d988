package mindspan.boxes;

import java.security.GeneralSecurityException;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** The box in which a client sends a neighbour its two shares: AES-256-GCM, a key used once. */
public final class Seal {
  public static final int BOX_SIZE = 2 * Shamir.SHARE_SIZE + 16;

  private final byte[] shared;
  private final byte[] session;

  /** A sealer for what two clients share in one session. */
  public Seal(byte[] shared, byte[] session) {
    this.shared = shared;
    this.session = session;
  }

  /** 82 bytes of the share of s_sk and the share of b. */
  public byte[] seal(long sender, long receiver, byte[] shares) {
    try {
      return run(Cipher.ENCRYPT_MODE, sender, receiver, shares);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Both shares, one after the other; null if the box does not open, for whatever reason. */
  public byte[] open(long sender, long receiver, byte[] box) {
    try {
      return run(Cipher.DECRYPT_MODE, sender, receiver, box);
    } catch (GeneralSecurityException e) {
      return null;
    }
  }

  private byte[] run(int mode, long sender, long receiver, byte[] data)
      throws GeneralSecurityException {
    byte[] direction = {(byte) (sender < receiver ? 0 : 1)};
    byte[] info = Keys.pairInfo(Labels.SHARE_KEY, sender, receiver, direction);
    byte[] key = Hashes.hkdf(shared, session, info, 32);
    try {
      Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
      // The key is of one session, sender and receiver, and seals one box: the nonce may be fixed.
      cipher.init(mode, new SecretKeySpec(key, "AES"), new GCMParameterSpec(128, new byte[12]));
      cipher.updateAAD(Bytes.join(session, Bytes.u32(sender), Bytes.u32(receiver)));
      return cipher.doFinal(data);
    } finally {
      Bytes.wipe(key);
    }
  }
}
