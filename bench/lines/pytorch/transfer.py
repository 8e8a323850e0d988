"""The digits 7, 8 and 9 by a new head on a base that knows 0 to 6."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(base, x, y, x_val, y_val):
    """The accuracy of validation; `base` gives 16 features."""
    torch.manual_seed(0)
    for p in base.parameters():
        p.requires_grad = False
    base.eval()
    model = nn.Sequential(base, nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(TensorDataset(x[:, None], y), batch_size=32, shuffle=True)
    for _ in range(15):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return (model(x_val[:, None]).argmax(1) == y_val).float().mean().item()
