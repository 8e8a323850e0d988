"""The next token of a sequence by a causal transformer."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(nn.Module):
    """Logits of each next token     [n,t] -> [n,t,16]"""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(16, 32)
        self.place = nn.Embedding(24, 32)
        layer = nn.TransformerEncoderLayer(
            32, 4, 128, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 16))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.out(self.blocks(self.token(x) + self.place.weight, mask, is_causal=True))


def train(x, y, x_val, y_val):
    """The cross-entropy of validation."""
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    for _ in range(15):
        for tokens, following in loader:
            optimizer.zero_grad()
            loss = criterion(model(tokens).flatten(0, 1), following.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    with torch.no_grad():
        return criterion(model(x_val).flatten(0, 1), y_val.flatten()).item()
