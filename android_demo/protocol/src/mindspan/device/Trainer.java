package mindspan.device;

import mindspan.boxes.Update;

/** What learns on the device; training itself is not the protocol's. */
public interface Trainer {
  /** The update from the global weights, whose length it has. */
  Update train(byte[] model, float[] weights);
}
