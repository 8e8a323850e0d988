package mindspan.boxes;

/** A long-term Ed25519 key that signs under a label; on a phone it lives in the key store. */
public interface Identity {
  /** 32 bytes. */
  byte[] publicKey();

  /** 64 bytes over the label, a zero byte, and the message. */
  byte[] sign(byte[] label, byte[] message);
}
